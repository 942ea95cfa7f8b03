// One attempt of one closure on a worker: reads the ticket's examples and runs the plan's
// component, once for every step of the closure that is not applied yet.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "protos/control.pb.h"
#include "runtime/base/pace.h"
#include "runtime/data/dataset.h"
#include "runtime/env/env.h"
#include "runtime/function/executor.h"
#include "runtime/function/frame.h"
#include "worker_server/ps_channel.h"

namespace coxswain::worker {

// A plan on a worker. Immutable.
struct WorkerPlan {
  PlanId id = 0;
  std::string content;  // the request that registered it, serialized
  DatasetId dataset = 0;
  // One compiled function for each GPU of the worker that a step can begin on, or a single one for
  // the CPU.
  std::vector<std::shared_ptr<const function::CompiledFunction>> components;
  std::vector<proto::ArgumentSource> sources;  // one per argument
  std::vector<ValuesId> values;                // that arguments are of, each once
  std::vector<int> ps_calls;                   // number of calls in the component, by PS
  mutable Pace pace;                           // duration of a run without PS calls and data
  mutable std::atomic<uint32_t> turn{0};       // of the components

  // Any of them, for properties that all have in common.
  const function::CompiledFunction& any() const { return *components.front(); }
  // The one whose devices have the fewest runs under way; of as many, each in its turn.
  const std::shared_ptr<const function::CompiledFunction>& LeastBusy() const;
};

// Per-worker values that arguments of a plan are of.
using ValuesOfPlan = std::map<ValuesId, std::shared_ptr<const std::vector<Tensor>>>;

class Execution final : public function::PsCaller, public std::enable_shared_from_this<Execution> {
 public:
  using Done = absl::AnyInvocable<void(function::ClosureReply)>;
  using Progress = absl::AnyInvocable<void(function::ClosureReply)>;

  struct Options {
    std::shared_ptr<const WorkerPlan> plan;
    std::shared_ptr<const data::Dataset> data;         // may be null when there is no ticket
    ValuesOfPlan values;                               // all that the plan names
    std::vector<std::shared_ptr<PsChannel>> channels;  // by PS; null: not connected
    std::string task;                                  // this worker
    trace::TraceRecorder* trace = nullptr;             // must live until `done` was called
    std::function<void(const absl::Status&)> device_lost;
    bool ps_in_process = false;  // all PS are in this process
    // Called on any thread, one call at a time, when steps were applied on all shards and more
    // follow, at most every kProgressInterval. `steps_done` counts from the closure's beginning,
    // including the steps of earlier attempts.
    Progress progress;
    // The last call, once, on any thread; `steps_done` as above.
    Done done;
  };
  static constexpr absl::Duration kProgressInterval = absl::Milliseconds(20);

  // `request.first_step` must be below `request.steps`. `env` must live until `done` was called.
  Execution(function::ClosureRequest request, env::Env* env, Options options);

  // Starts on the pool, or in the calling thread when a run is very short: a few kernels without
  // data and PS calls, of which earlier runs took less than kBorrowedTime.
  void Start();
  // No further step starts; `done` gets cause kCancelled, unless it was the last one. Of a
  // synchronous step with backups no further node of the computation starts. Thread-safe.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  void Call(const function::PsCallTarget& target, std::vector<Tensor> inputs,
            function::PsCaller::Done done) override;

 private:
  bool IsAlone() const;
  void RunAlone();
  void ScheduleStep();
  void RunStep();
  // The examples of the current step.
  Ticket StepTicket() const;
  absl::StatusOr<std::vector<Tensor>> Arguments() const;
  // The same, but a shortage of memory is thrown.
  absl::StatusOr<std::vector<Tensor>> ReadArguments() const;
  // An argument that is of per-worker values.
  absl::StatusOr<Tensor> Value(const proto::ArgumentSource& source) const;
  // The error of a number that is not finite, with the examples that caused it as far as these are
  // known. On the pool.
  absl::Status Blamed(const absl::Status& status) const;
  // The same with the cause kCancelled.
  absl::Status Cancelled(const absl::Status& status) const;
  void OnStepDone(absl::StatusOr<std::vector<Tensor>> results);
  void OnStepFailed(const absl::Status& status);
  // Whether it confirms that its gradients are held everywhere, and other closures of this worker
  // wait for that: of a synchronous step that is not free, and without backups.
  bool IsWaitedFor() const {
    return request_.sync && !request_.sync.free && request_.sync.backup == 0;
  }
  // Tells the channels of the plan's PS that this closure of its step is under way, and that it is
  // no more.
  void BeginInStep();
  void EndInStep();
  // The same for one of a free step.
  void BeginFree();
  void EndFree();
  // Those that the plan calls, ascending.
  std::vector<size_t> Servers() const;
  // For a synchronous step, when all gradients of this closure are held: tells all PS so, and ends
  // the attempt when they have answered.
  void TellHeld(std::vector<Tensor> results);
  function::SegmentRequest NewFrame(uint32_t segment) const;
  void Finish(absl::Status status, std::vector<Tensor> results);

  bool tracing() const { return options_.trace != nullptr && options_.trace->enabled(); }
  // A span from `*since` on, unless that is zero; it becomes zero.
  void Trace(trace::SpanKind kind, absl::Duration* since);

  function::ClosureReply Report() const;
  // Tells the channels to expect no further frame of this step.
  void EndWork();
  // Tells the channels that the step is about to look up rows, until RunStep has sent its first
  // frames.
  void BeginStart();
  void EndStart();

  function::ClosureRequest request_;
  env::Env* const env_;
  Options options_;
  // For the trace: zero when it is off.
  absl::Duration started_, step_started_;
  std::atomic<bool> cancelled_{false};
  uint32_t step_;  // the running or next step
  // By PS: whether it has answered and will get another frame in this step. Set by the reply,
  // cleared by the run.
  std::vector<char> working_;
  // By PS, of a free step: whether it will send more frames but for the confirmation. Empty: it is
  // none, or is over.
  std::vector<char> coming_;
  bool in_step_ = false;        // between BeginInStep and the confirmation, or EndInStep
  absl::Duration last_report_;  // on the monotonic clock
};

}  // namespace coxswain::worker
