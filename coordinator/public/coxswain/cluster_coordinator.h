// ClusterCoordinator: schedules functions on the workers and joins them.
//
// Thread model: ClusterCoordinator and RemoteValue are thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coxswain/cluster.h"
#include "coxswain/dataset.h"
#include "coxswain/strategy.h"
#include "coxswain/tensor.h"

namespace coxswain::checkpoint {
struct CheckpointClosure;
}  // namespace coxswain::checkpoint

namespace coxswain::core {
struct ClosureSpec;
}  // namespace coxswain::core

namespace coxswain {

struct SyncStep;

// The future that Schedule returns. Cheap to copy; thread-safe. It stays good when the worker that
// computed it is gone: results travel with the completion.
class RemoteValue {
 public:
  RemoteValue() = default;  // empty: Get is FailedPrecondition

  bool Ready() const;
  // Waits for the closure; every 30 s it logs what it waits for. Errors: the closure's; Cancelled.
  absl::StatusOr<std::vector<Tensor>> Get() const;
  // The closure need not run any more. Returns at once; what became of it the future tells: its
  // results, if it was about to end; else Cancelled, and GetEffect (coxswain/status.h) says whether
  // it has changed something. That is no error to the coordinator. One that has not started ends at
  // once, one that runs when its worker has heard of it, between two of its steps. One of a
  // synchronous step that has begun goes on; before that all of its step is cancelled.
  void Cancel() const;

 private:
  friend class ClusterCoordinator;
  friend class ClosureArgument;
  struct State;
  std::shared_ptr<State> state_;
};

// What a closure is given: a tensor, or a result of another closure, which need not be over: this
// one starts when it is. The value is taken along by the coordinator, so it does not matter
// whether the worker that computed it is still there. Where that closure fails, this one does with
// its error.
class ClosureArgument {
 public:
  ClosureArgument(Tensor value) : tensor_(std::move(value)) {}  // NOLINT: is one
  // Of a function with one result.
  ClosureArgument(RemoteValue value) : value_(std::move(value)) {}  // NOLINT: is one
  // The result of this name.
  ClosureArgument(RemoteValue value, std::string result)
      : value_(std::move(value)), result_(std::move(result)) {}

 private:
  friend class ClusterCoordinator;
  // Whether the value is there.
  bool Ready() const;
  // Of one that is ready. Errors: that of the closure that it comes from; NotFound for no such
  // result; FailedPrecondition for a RemoteValue of no closure.
  absl::StatusOr<Tensor> Value() const;

  Tensor tensor_;
  RemoteValue value_;
  std::string result_;
};

// How one closure is run.
struct ScheduleOptions {
  std::vector<ClosureArgument> arguments = {};
  Ticket ticket = {};  // for a function with a data set
  uint32_t steps = 1;  // into which the ticket's examples are cut; at least 1, at most as many
  // From the call on, however often it is tried and whatever it waits for: then it is cancelled as
  // by RemoteValue::Cancel, and its error is DeadlineExceeded, by the policy one like others. A
  // worker that does not answer has a second more. A negative time is none.
  absl::Duration deadline = absl::InfiniteDuration();
};

// How a synchronous step is run.
struct StepOptions {
  std::vector<Tensor> arguments = {};  // of each of its closures
  // Or each closure's own: a list for each ticket. Not both.
  std::vector<std::vector<Tensor>> arguments_each = {};
  // From the call on. A step that has not begun by then is cancelled whole, with DeadlineExceeded
  // for all of its futures, by the policy errors like others; one that has begun is finished.
  absl::Duration deadline = absl::InfiniteDuration();
};

struct CoordinatorOptions {
  // Schedule blocks while this number of closures wait or run: the larger of `queue_size` and
  // `queue_per_worker` times the number of workers that the cluster lists at that time.
  int64_t queue_size = 4096;
  int64_t queue_per_worker = 0;
  uint64_t seed = 0;  // random ops draw from (seed, closure, step)
  // With Consistency::in_steps it is kFailFast for closures with updates: their step can be neither
  // applied nor left out without them, and the cluster runs nothing more.
  ErrorPolicy on_error = ErrorPolicy::kFailFast;
};

class ClusterCoordinator {
 public:
  // The strategy's cluster must outlive the coordinator.
  explicit ClusterCoordinator(const ParameterServerStrategy& strategy)
      : ClusterCoordinator(strategy, CoordinatorOptions{}) {}
  ClusterCoordinator(const ParameterServerStrategy& strategy, CoordinatorOptions options);
  // Cancels closures that are not over and waits for them.
  ~ClusterCoordinator();
  ClusterCoordinator(const ClusterCoordinator&) = delete;
  ClusterCoordinator& operator=(const ClusterCoordinator&) = delete;

  // Queues one run of the function and returns its future; blocks only while the queue is full. A
  // closure whose worker is lost runs again elsewhere; its updates are applied once. Under
  // kFailFast, after a closure failed and until Join has reported it, new closures fail with
  // Cancelled. A call that does not fit the function (RemoteFunction::CheckCall), or a function of
  // another strategy, is not queued: its future is InvalidArgument, and so is the next Join,
  // depending on the policy. With kHybrid and with Consistency::accumulate so is a function that
  // trains (Minimize, ApplyGradients), with FailedPrecondition: it is for ScheduleStep. Tensors are
  // handles on their values: a program that fills one anew in place (Tensor::mutable_data) changes
  // what closures that are not over are given, so it makes a new one for each call.
  RemoteValue Schedule(const RemoteFunction& function, std::vector<Tensor> arguments = {});
  // For a function with a data set. The ticket's examples are cut into `steps` steps, run one after
  // the other in one closure; the results are those of the last. Also InvalidArgument for no step,
  // and for more steps than the ticket has examples.
  RemoteValue Schedule(const RemoteFunction& function, const Ticket& ticket, uint32_t steps = 1,
                       std::vector<Tensor> arguments = {});
  // The same, with all that can be said of it. Waits for no argument: what waits counts for
  // CoordinatorOptions::queue_size and Join, but not yet among the closures of a checkpoint.
  RemoteValue Schedule(const RemoteFunction& function, ScheduleOptions options);
  // A synchronous step: one closure for each ticket, whose gradients are applied as one update when
  // all are there. For strategies with Consistency::in_steps; with kSync Schedule of a function
  // with updates is a step of one. Futures are in the tickets' order and ready together. A step
  // that has begun is not cancelled. With Consistency::backup it takes all tickets but as many as
  // there are beyond Consistency::batches(), at most `backup`; the futures of those that it did
  // without say Cancelled with cause kSurplus, which is no error of the coordinator: schedule them
  // again.
  // Errors: as Schedule, of all futures; and InvalidArgument for no ticket or more than
  // Consistency::kMostReplicas, FailedPrecondition with another Consistency.
  std::vector<RemoteValue> ScheduleStep(const RemoteFunction& function,
                                        absl::Span<const Ticket> tickets,
                                        const std::vector<Tensor>& arguments = {}) {
    return ScheduleStep(function, tickets, StepOptions{.arguments = arguments});
  }
  std::vector<RemoteValue> ScheduleStep(const RemoteFunction& function,
                                        absl::Span<const Ticket> tickets,
                                        const StepOptions& options);
  // Schedules a closure of the checkpoint that the session was resumed from, under its old id.
  // `function` must have the name of the closure's function. All closures of the checkpoint must be
  // scheduled before any other closure of the cluster, in their order, as
  // CheckpointManager::RunPending does. Does not wait for room in the queue, and closures of a
  // synchronous step start when all of the step's are scheduled.
  RemoteValue ScheduleResumed(const RemoteFunction& function,
                              const checkpoint::CheckpointClosure& closure);

  // Called when a closure is over, before Join returns; for one closure at a time, on a thread of
  // the runtime or on one that is in a call of this library. Set it before the first Schedule. It
  // must not block, call this coordinator, drop the last handle of its cluster, or take a lock that
  // the program holds while it calls the library.
  using Observer =
      std::function<void(const Ticket& ticket, const absl::StatusOr<std::vector<Tensor>>& results)>;
  void set_observer(Observer observer);

  // Waits until every closure is over, and until those that run again because a parameter server
  // was lost have done so: what is read then has the updates of all. Returns at once when none was
  // scheduled.
  // Errors: the first error of a closure since the last Join, depending on the policy. It names the
  // closure, the worker, the op and the cause; GetDetail has task and cause. The coordinator is
  // usable afterwards.
  absl::Status Join();
  // The same, but does not wait for what runs again: for a program that goes on without reading, or
  // ends with a checkpoint, of which such closures are.
  absl::Status JoinScheduled();
  // The errors of the closures since the last Join, in the order in which they occurred; after a
  // Join, and until the next Schedule, the errors that this Join covered. At most kMostErrors.
  std::vector<absl::Status> errors() const;
  static constexpr size_t kMostErrors = 1000;
  // Number of closures that failed for any reason, since this coordinator was created.
  int64_t failed() const;
  // Whether every closure is over.
  bool Done() const;
  // The same, but waits up to `wait` for it.
  bool Done(absl::Duration wait) const;
  // Whether Schedule would not wait for room in the queue; waits up to `wait` until it would not.
  bool HasRoom(absl::Duration wait) const;
  // Closures of this coordinator that have not started fail with Cancelled, and workers are asked
  // to give up those that run. Those of other coordinators on the cluster are not touched.
  // A ticket may be scheduled again once its future is Cancelled; before that it may still be used.
  void Cancel();

  // The result of this name, as its function has it (FunctionBuilder::Result), as a number; waits
  // for it. Errors: the closure's; NotFound naming the results that there are; InvalidArgument when
  // it is of another type or not one number.
  template <typename T>
  absl::StatusOr<T> Fetch(const RemoteValue& value, absl::string_view result) const {
    absl::StatusOr<Tensor> tensor = Fetch(value, result);
    if (!tensor.ok()) return tensor.status();
    if (absl::Status s = CheckNumber(*tensor, result, DTypeOf<T>::value); !s.ok()) return s;
    return tensor->template data<T>()[0];
  }
  // The whole of it. Errors: as above, but for the type.
  absl::StatusOr<Tensor> Fetch(const RemoteValue& value, absl::string_view result) const;
  // All results, in the order of RemoteFunction::results.
  absl::StatusOr<std::vector<Tensor>> Fetch(const RemoteValue& value) const { return value.Get(); }
  // The result of this name of each of them, in their order. Errors: the first one.
  template <typename T>
  absl::StatusOr<std::vector<T>> Fetch(const std::vector<RemoteValue>& values,
                                       absl::string_view result) const {
    std::vector<T> numbers;
    for (const RemoteValue& value : values) {
      absl::StatusOr<T> number = Fetch<T>(value, result);
      if (!number.ok()) return number.status();
      numbers.push_back(*number);
    }
    return numbers;
  }
  // All results of each of them.
  absl::StatusOr<std::vector<std::vector<Tensor>>> Fetch(
      const std::vector<RemoteValue>& values) const;
  // Results by their names; with a `group` those of FunctionBuilder::Results, by what their names
  // are in it. Errors: the closure's; NotFound for a group that has none.
  absl::StatusOr<std::map<std::string, Tensor>> FetchGroup(const RemoteValue& value,
                                                           absl::string_view group = "") const;

  // Of the whole cluster.
  DispatcherStats stats() const;

 private:
  struct Shared;
  struct Waiting;

  absl::Status CheckCall(const RemoteFunction& function, const Ticket& ticket,
                         absl::Span<const Tensor> arguments) const;
  RemoteValue Refuse(absl::Status status);
  RemoteValue ScheduleSpec(const RemoteFunction& function, core::ClosureSpec spec);
  // Where arguments are not there yet.
  RemoteValue ScheduleLater(const RemoteFunction& function, ScheduleOptions options);
  static void LaunchWaiting(const std::shared_ptr<Waiting>& waiting);
  static absl::Status BadArgument(const RemoteFunction& function, size_t index,
                                  const absl::Status& status);
  // Of the cluster's clock; now where the time is negative.
  absl::Duration DeadlineIn(absl::Duration time) const;
  core::ClosureSpec SpecOf(const RemoteFunction& function, const Ticket& ticket, uint32_t steps,
                           std::vector<Tensor> arguments) const;
  // Where updates are of several batches, it is none that trains.
  absl::Status CheckAlone(const RemoteFunction& function) const;
  absl::Status CheckStep(const RemoteFunction& function, absl::Span<const Ticket> tickets,
                         const StepOptions& options) const;
  int64_t QueueSize() const;
  // Waits for room, and takes it for a number of closures. False: an earlier one has failed.
  bool TakeRoom(int64_t closures);
  RemoteValue NewValue(const RemoteFunction& function) const;
  SyncStep KindOfStep(size_t tickets) const;
  using Tell = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;
  // What tells `value` and whoever else wants to know; it completes the spec.
  Tell TellerOf(const RemoteFunction& function, const RemoteValue& value,
                core::ClosureSpec* spec) const;

  // Hands it to the cluster; there is room for it.
  void Launch(core::ClosureSpec spec, Tell done, const RemoteValue& value);

  static absl::Status CheckNumber(const Tensor& tensor, absl::string_view result, DType dtype);

  Cluster cluster_;
  CoordinatorOptions options_;
  Consistency consistency_;
  uint64_t strategy_ = 0;  // whose functions it runs
  uint64_t owner_ = 0;
  std::shared_ptr<Shared> shared_;
};

}  // namespace coxswain
