// One thread that waits on file descriptors, for what is not gRPC.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace coxswain::net {

// What a poller looks after. All calls come on its thread.
class PollerSource {
 public:
  virtual ~PollerSource() = default;
  virtual int fd() const = 0;
  // The descriptor can be read or was hung up. False: it is over, the poller forgets it.
  virtual bool OnReady() = 0;
  // Takes what came by other ways than the descriptor, without waiting: whether something did.
  virtual bool Poll() { return false; }
  // From now on the descriptor tells when something comes. False: something has come already.
  virtual bool Arm() { return true; }
  // The poller has forgotten it: the descriptor may be closed.
  virtual void OnForgotten() {}
};

// Thread-safe.
class Poller {
 public:
  // Errors: ResourceExhausted, when the system has no descriptor, memory or thread for it.
  static absl::StatusOr<std::shared_ptr<Poller>> Make();
  // Ends the thread; sources are forgotten, timers never run. On the poller's own thread the end
  // comes when what it runs has returned.
  ~Poller();

  // Errors: ResourceExhausted, when the system watches no more descriptors (a user may have so many
  // of all processes, fs.epoll.max_user_watches); then none of the source's methods was called but
  // fd.
  absl::Status Add(std::shared_ptr<PollerSource> source);
  void RunAfter(absl::Duration delay, std::function<void()> action);

 private:
  struct State;
  explicit Poller(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace coxswain::net
