// A worker's connection to one PS: one stream, with any number of segment calls under way.
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
#include "worker_server/free_calls.h"
#include "worker_server/step_calls.h"

namespace coxswain::worker {

// Payload between a worker and a PS since the worker's process began, whatever became of channels.
struct PsTraffic {
  std::atomic<uint64_t> bytes_sent{0}, bytes_received{0};
};

// Thread-safe. When the stream breaks, the calls under way fail with cause kTaskLost, and the next
// call tries to connect again (not more often than every 100 ms). The PS's ledger records whether a
// failed call was applied.
//
// No call waits for ever on a silent PS (hung, or cut off in one direction): while calls are under
// way and nothing arrives for half of the silence timeout, the PS is pinged; when nothing arrives
// for the whole timeout, the stream breaks. A PS that computes for a long time answers pings in
// between. Close a channel before its last handle is destroyed.
class PsChannel : public std::enable_shared_from_this<PsChannel> {
 public:
  struct Options {
    std::string address;
    int ps = 0;
    Incarnation incarnation = 0;  // of the expected PS
    SessionId session = 0;
    Generation generation = 0;  // of the cluster's layout that this worker was set up for
    int worker = 0;
    Incarnation worker_incarnation = 0;
    int compute_threads = 1;  // of this worker
    absl::Duration connect_timeout = absl::Seconds(5);
    // Checked four times in this period, so the actual timeout may be up to a quarter longer.
    absl::Duration silence_timeout = absl::Seconds(5);
    std::shared_ptr<PsTraffic> traffic =
        {};  // what is sent and received counts there; null: nowhere
  };
  using Done = FrameDone;
  using Ready = absl::AnyInvocable<void(absl::Status)>;

  // The loop runs timers. `env` and `transport` must outlive the channel; `loop` must outlive the
  // last Open and Call.
  PsChannel(env::Env* env, env::EventLoop* loop, net::Transport* transport, Options options);

  // Connects, unless it is connected; `ready` is called once, when the PS has accepted or refused,
  // on any thread, maybe before Open returns.
  void Open(Ready ready);
  // How a call's frame may be combined with others. The last frame of a step and the first frame of
  // another step, which looks up rows, are sent as one if that delays nothing, so that a step has 2
  // frames instead of 4:
  //   - while a step is about to look up rows, which takes microseconds, last frames wait for it:
  //     for one to two kHeldTick at most, because it may itself have to wait, for its data;
  //   - while there are steps that have their rows for all threads of the worker, and one more,
  //     first frames wait for the last frame of one of them.
  enum class Travel {
    kAtOnce,
    kFirst,     // the first of a step
    kEndsWork,  // the last of a step for which BeginWork was called
    kAlone,     // neither waits nor takes others along: of a synchronous step, whose frames may
                // have to wait for that of another closure
    kFollows,   // the first of a closure of a synchronous step: see StepCalls
    kConfirms,  // the confirmation of such a closure, for which BeginInStep was called
    kRides,     // the confirmation of a closure of a free step: see FreeCalls
  };
  // What waits for another closure does so for one to two of these at most.
  static constexpr absl::Duration kStepTick = absl::Milliseconds(500);
  // Of last frames that wait for a look-up. Most steps compute for less, so that a look-up that
  // waits for a thread, and not for its data, still takes them along.
  static constexpr absl::Duration kHeldTick = absl::Milliseconds(100);
  // `request.call` is filled in. `done` is called once, on any thread, maybe before Call returns.
  void Call(function::SegmentRequest request, Done done, Travel travel = Travel::kAtOnce);
  // A step has its rows and will send a frame with kEndsWork; if it will not, it must call EndWork.
  void BeginWork();
  void EndWork();
  // A step is about to look up rows, until EndStart.
  void BeginStart() { starting_.fetch_add(1); }
  void EndStart();
  // A closure of this synchronous step is under way on this worker. If it ends without having sent
  // its confirmation (kConfirms), it must call EndInStep.
  void BeginInStep(ClosureId step);
  void EndInStep(ClosureId step);
  // A closure of a free step is under way, until EndFree. Between the two it calls BeginLastFrame
  // before its last Call but for the confirmation (kRides), or EndFrames if there will be none.
  void BeginFree();
  void BeginLastFrame();
  void EndFrames();
  void EndFree();
  // Calls under way fail with `reason`, in their order, and so do later calls.
  void Close(absl::Status reason);

  const Options& options() const { return options_; }
  uint64_t frames() const;      // frames sent; each may hold several calls
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
  using Calls = FrameCalls;
  void CallInStep(function::SegmentRequest request, Done done, Travel travel);
  // Whether a confirmation waits for another frame.
  bool KeepFree(function::SegmentRequest* request, Done* done);
  void ScheduleStepTick();
  void OnStepTick();
  void ScheduleHeldTick();
  void OnHeldTick();
  // Sends the calls as one frame, over the existing stream or a new one.
  void Send(Calls calls) ABSL_LOCKS_EXCLUDED(mu_);

  mutable absl::Mutex mu_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);  // null before the first Connect
  absl::Duration last_connect_ ABSL_GUARDED_BY(mu_);     // on the monotonic clock
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
  int working_ ABSL_GUARDED_BY(mu_) = 0;  // steps that have their rows and will send a frame
  Calls waiting_ ABSL_GUARDED_BY(mu_);    // first frames that wait for one of those
  Calls held_ ABSL_GUARDED_BY(mu_);       // last frames that wait for first frames
  bool held_ticked_ ABSL_GUARDED_BY(mu_) = false;  // the first of them has seen a tick
  bool held_tick_ ABSL_GUARDED_BY(mu_) = false;    // is scheduled
  StepCalls steps_ ABSL_GUARDED_BY(mu_);
  FreeCalls free_ ABSL_GUARDED_BY(mu_);
  bool step_tick_ ABSL_GUARDED_BY(mu_) = false;  // is scheduled
  uint64_t frames_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t bytes_sent_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::worker
