// A worker's way to one PS: one stream, any number of segment calls under way.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/env/env.h"
#include "runtime/function/frame.h"
#include "runtime/net/transport.h"

namespace coxswain::worker {

// Thread-safe. When the stream breaks, the calls under way fail with cause kTaskLost, and the next
// call tries to connect again (not more often than every 100 ms). What the PS applied of a failed
// call is its ledger's business.
//
// No call waits for ever on a PS that fell silent (hung, or cut off in one direction): while calls
// are under way and nothing is heard for half of the silence timeout, the PS is pinged; when
// nothing is heard for the whole of it, the stream breaks. A PS that computes for long answers
// pings in between other work. Close a channel before the last handle goes.
class PsChannel : public std::enable_shared_from_this<PsChannel> {
 public:
  struct Options {
    std::string address;
    int ps = 0;
    Incarnation incarnation = 0;  // of the PS that is meant
    SessionId session = 0;
    Generation generation = 0;  // of the cluster's layout that this worker was set up for
    int worker = 0;
    Incarnation worker_incarnation = 0;
    int compute_threads = 1;  // of this worker
    absl::Duration connect_timeout = absl::Seconds(5);
    // Looked at four times in its course, so it may be up to a quarter longer.
    absl::Duration silence_timeout = absl::Seconds(5);
  };
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
  using Ready = absl::AnyInvocable<void(absl::Status)>;

  // The loop is for timers. `env` and `transport` must outlive the channel; `loop` the last Open
  // and Call.
  PsChannel(env::Env* env, env::EventLoop* loop, net::Transport* transport, Options options);

  // Connects, unless it is connected; `ready` is called once, when the PS has accepted or refused,
  // on any thread, maybe before Open returns.
  void Open(Ready ready);
  // How a call's frame may travel. The last frame of a step and the first of another, which looks
  // up rows, go as one where that delays nothing, so that a step has 2 frames instead of 4:
  //   - while a step is about to look up rows, which takes microseconds, last frames wait for it;
  //   - while there are steps that have their rows for all threads of the worker, and one more,
  //     first frames wait for the last frame of one of them.
  enum class Travel {
    kAtOnce,
    kFirst,     // the first of a step
    kEndsWork,  // the last of a step for which BeginWork was called
    kAlone,     // neither waits nor takes others along: of a synchronous step, whose frames may
                // have to wait for that of another closure
  };
  // `request.call` is filled in. `done` is called once, on any thread, maybe before Call returns.
  void Call(function::SegmentRequest request, Done done, Travel travel = Travel::kAtOnce);
  // A step has its rows and will send a frame that kEndsWork. When it will not, EndWork.
  void BeginWork();
  void EndWork();
  // A step is about to look up rows, until EndStart.
  void BeginStart() { starting_.fetch_add(1); }
  void EndStart();
  // Calls under way fail with `reason`, in their order, and so do later ones.
  void Close(absl::Status reason);

  const Options& options() const { return options_; }
  uint64_t frames() const;      // sent; each may hold several calls
  uint64_t bytes_sent() const;  // headers and payload

 private:
  class Stream;

  // A new stream, with the hello on its way. Not under the lock: in process, the answer may come
  // before it returns.
  std::shared_ptr<Stream> Connect(Ready ready) ABSL_LOCKS_EXCLUDED(mu_);

  env::Env* env_;
  env::EventLoop* loop_;
  net::Transport* transport_;
  const Options options_;
  std::atomic<int> starting_{0};
  using Calls = std::vector<std::pair<function::SegmentRequest, Done>>;
  // As one frame, over the stream that there is or a new one.
  void Send(Calls calls) ABSL_LOCKS_EXCLUDED(mu_);

  mutable absl::Mutex mu_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);  // null before the first Connect
  absl::Duration last_connect_ ABSL_GUARDED_BY(mu_);     // on the monotonic clock
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
  int working_ ABSL_GUARDED_BY(mu_) = 0;  // steps that have rows and owe a frame
  Calls waiting_ ABSL_GUARDED_BY(mu_);    // first frames, for one of those
  Calls held_ ABSL_GUARDED_BY(mu_);       // last frames, for first ones
  uint64_t frames_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t bytes_sent_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::worker
