// Takes those who connect to a listening socket, on a poller's thread.
//
// That there is no descriptor for one more ends nothing: those who connect wait in the socket's
// queue, and the loop looks again every kPause. (gRPC 1.51's own loop never looks again.)
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/net/poller.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::net {

class AcceptLoop final : public PollerSource, public std::enable_shared_from_this<AcceptLoop> {
 public:
  static constexpr absl::Duration kPause = absl::Milliseconds(100);

  // `take` is given each new connection, which does not block and is closed on exec. `who`, for the
  // log: those who connect to 10.0.0.1:7000.
  AcceptLoop(std::shared_ptr<Poller> poller, UniqueFd socket, std::string who,
             std::function<void(UniqueFd)> take);

  // Stops listening. When it returns, the address is free and `take` runs no more. Not on the
  // poller's thread; only when the poller has taken the loop.
  void ShutDown();

  int fd() const override { return socket_.get(); }
  bool OnReady() override;
  void OnForgotten() override;

 private:
  // False: the poller is to forget the socket, for a while or for ever.
  bool OnRefused(int error);
  void GoOn();
  void Pause(Poller* poller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::weak_ptr<Poller> poller_;
  UniqueFd socket_;
  const std::string who_;
  const std::function<void(UniqueFd)> take_;
  int short_of_ = 0;  // an error, of the poller's thread
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool paused_ ABSL_GUARDED_BY(mu_) = false;  // the poller does not look at it
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::net
