// One stream of a worker's connection to a PS, until it breaks.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "worker_server/ps_channel.h"

namespace coxswain::worker {

// Thread-safe. Once broken it stays broken.
class PsChannel::Stream final : public net::ConnectionHandler,
                                public std::enable_shared_from_this<PsChannel::Stream> {
 public:
  Stream(env::EventLoop* loop, const Options& options, Ready ready);

  // To be called once, before all other methods.
  void Connect(net::Transport* transport);
  bool broken() const;
  // Calls `ready` when the PS has accepted or refused, perhaps at once.
  void WhenReady(Ready ready);
  // Sends the calls as one frame, or as few frames as the size limit allows. A call that is too
  // large by itself ends with ResourceExhausted and cause kApplication, without an effect on the
  // others. Each `done` is called once.
  void Call(Calls calls);
  // Calls under way fail with `reason`, in their order.
  void Break(absl::Status reason);
  // An error with cause kTaskLost.
  absl::Status Lost(absl::string_view why) const;

  void OnMessage(net::Message message) override;
  void OnClosed(absl::Status status) override;

 private:
  // Ends the call with an error.
  void Fail(uint64_t call, absl::Status status);
  void OnHelloReply(const net::Message& message);
  // False: the stream is broken.
  bool OnReply(net::Message message);
  // Whether the stream waits for a message of the PS.
  bool waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !calls_.empty() || (!greeted_ && !ready_.empty());
  }
  // Returns whether the caller must call ScheduleTick: the timer is not running, but should.
  bool StartWatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScheduleTick();
  void OnTick();

  env::EventLoop* const loop_;
  const Options options_;
  const std::string task_;          // the PS
  std::atomic<bool> heard_{false};  // whether a message arrived since the last tick
  mutable absl::Mutex mu_;
  std::vector<Ready> ready_ ABSL_GUARDED_BY(mu_);
  bool greeted_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<net::Connection> connection_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  uint64_t last_call_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uint64_t, Done> calls_ ABSL_GUARDED_BY(mu_);
  bool watching_ ABSL_GUARDED_BY(mu_) = false;  // a tick is scheduled
  int silent_ticks_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::worker
