// First the futures and what closures under way report to (Shared), which may outlive the
// coordinator; then the coordinator: Schedule in its forms, and how one waits for closures.
#include "coxswain/cluster_coordinator.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coordinator/api/remote_function_state.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

// Whether the closure itself is at fault. Otherwise the cluster cannot go on.
bool OwnFault(const absl::Status& status) {
  const auto detail = GetDetail(status);
  if (!detail) return true;
  switch (detail->cause) {
    case ErrorCause::kTaskLost:
    case ErrorCause::kStaleEpoch:
    case ErrorCause::kClusterHeld:
    case ErrorCause::kUnreachable:
    case ErrorCause::kTerminated:
      return false;
    default:
      return true;
  }
}

bool IsSurplus(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail && detail->cause == ErrorCause::kSurplus;
}

// An error of the closure itself, with the worker that found it before what the worker said.
absl::Status NameWorker(const absl::Status& status) {
  const auto detail = GetDetail(status);
  if (!detail || detail->cause != ErrorCause::kApplication || detail->task.empty()) return status;
  return Annotate(status, detail->task);
}

// Waits until the condition holds; `explain` is called every kSilence, without the lock.
template <typename Explain>
void AwaitAloud(absl::Mutex* mu, const absl::Condition& condition,
                Explain explain) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const absl::Time start = absl::Now();
  while (!mu->AwaitWithTimeout(condition, kSilence)) {
    mu->Unlock();
    explain(absl::Now() - start);
    mu->Lock();
  }
}

}  // namespace

struct RemoteValue::State {
  explicit State(WaitReporter reporter) : waits(std::move(reporter)) {}

  const WaitReporter waits;
  std::shared_ptr<const ResultNames> names;  // of the function
  absl::Mutex mu;
  bool ready ABSL_GUARDED_BY(mu) = false;
  absl::StatusOr<std::vector<Tensor>> results ABSL_GUARDED_BY(mu) = absl::UnknownError("not ready");
};

bool RemoteValue::Ready() const {
  if (state_ == nullptr) return false;
  absl::MutexLock lock(&state_->mu);
  return state_->ready;
}

absl::StatusOr<std::vector<Tensor>> RemoteValue::Get() const {
  if (state_ == nullptr) return absl::FailedPreconditionError("no closure was scheduled");
  absl::MutexLock lock(&state_->mu);
  AwaitAloud(&state_->mu, absl::Condition(&state_->ready),
             [this](absl::Duration waited) { state_->waits.Report("a closure's result", waited); });
  return state_->results;
}

// What closures under way report to; outlives the coordinator if need be.
struct ClusterCoordinator::Shared {
  Shared(const Cluster& cluster, ErrorPolicy on_error) : policy(on_error), waits(cluster) {}

  const ErrorPolicy policy;
  const WaitReporter waits;
  absl::Mutex mu;
  int64_t pending ABSL_GUARDED_BY(mu) = 0;
  int64_t failed ABSL_GUARDED_BY(mu) = 0;
  absl::Status error ABSL_GUARDED_BY(mu);    // what Join will return
  bool stopped ABSL_GUARDED_BY(mu) = false;  // by that error: new closures are cancelled
  std::vector<absl::Status> errors ABSL_GUARDED_BY(mu);
  bool joined ABSL_GUARDED_BY(mu) = false;  // `errors` were summed up
  std::atomic<uint64_t> accumulations{0};
  Observer observer;                        // set before the first closure

  struct Room {
    Shared* shared;
    int64_t size;
    static bool Free(Room* r) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return r->shared->pending < r->size;
    }
  };
  static bool Idle(Shared* s) ABSL_NO_THREAD_SAFETY_ANALYSIS { return s->pending == 0; }

  // Something is scheduled: errors that a Join has summed up are over.
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (joined) errors.clear();
    joined = false;
  }
  // Takes note of an error. True: everything else is to be cancelled.
  bool Failed(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    ++failed;
    if (errors.size() < kMostErrors) errors.push_back(status);
    const bool own = OwnFault(status);
    if (policy == ErrorPolicy::kIgnore && own) return false;
    // What ends everything is told rather than an error that was collected before.
    if (error.ok() || (!own && !stopped)) error = status;
    if (stopped || (policy != ErrorPolicy::kFailFast && own)) return false;
    stopped = true;
    return true;
  }
};

ClusterCoordinator::ClusterCoordinator(const ParameterServerStrategy& strategy,
                                       CoordinatorOptions options)
    : cluster_(strategy.cluster()),
      options_(options),
      consistency_(strategy.consistency()),
      strategy_(strategy.number()),
      owner_(cluster_.NewOwner()),
      shared_(std::make_shared<Shared>(cluster_, options.on_error)) {}

ClusterCoordinator::~ClusterCoordinator() {
  Cancel();
  Join().IgnoreError();
}

void ClusterCoordinator::set_observer(Observer observer) {
  shared_->observer = std::move(observer);
}

RemoteValue ClusterCoordinator::Schedule(const RemoteFunction& function,
                                         std::vector<Tensor> arguments) {
  return Schedule(function, Ticket{}, 1, std::move(arguments));
}

RemoteValue ClusterCoordinator::Schedule(const RemoteFunction& function, const Ticket& ticket,
                                         uint32_t steps, std::vector<Tensor> arguments) {
  if (absl::Status status = CheckCall(function, ticket, arguments); !status.ok()) {
    return Refuse(std::move(status));
  }
  return ScheduleSpec(function, SpecOf(function, ticket, steps, std::move(arguments)));
}

core::ClosureSpec ClusterCoordinator::SpecOf(const RemoteFunction& function, const Ticket& ticket,
                                             uint32_t steps, std::vector<Tensor> arguments) const {
  core::ClosureSpec spec;
  spec.plan = function.plan();
  spec.arguments = std::move(arguments);
  if (ticket.size() > 0) spec.dataset = function.dataset();
  spec.ticket = ticket;
  spec.steps = steps;
  spec.seed = options_.seed;
  return spec;
}

absl::Status ClusterCoordinator::CheckStep(const RemoteFunction& function,
                                           absl::Span<const Ticket> tickets,
                                           absl::Span<const Tensor> arguments) const {
  if (!consistency_.in_steps()) {
    return absl::FailedPreconditionError(
        "synchronous steps are for a strategy with Consistency kSync or kHybrid, or accumulate");
  }
  if (tickets.empty() || KindOfStep(tickets.size()).count > Consistency::kMostReplicas) {
    return absl::InvalidArgumentError(absl::StrCat("a synchronous step has 1 to ",
                                                   Consistency::kMostReplicas, " tickets, found ",
                                                   tickets.size()));
  }
  for (const Ticket& ticket : tickets) RETURN_IF_ERROR(CheckCall(function, ticket, arguments));
  return absl::OkStatus();
}

std::vector<RemoteValue> ClusterCoordinator::ScheduleStep(const RemoteFunction& function,
                                                          absl::Span<const Ticket> tickets,
                                                          const std::vector<Tensor>& arguments) {
  if (absl::Status status = CheckStep(function, tickets, arguments); !status.ok()) {
    return std::vector<RemoteValue>(std::max<size_t>(1, tickets.size()), Refuse(status));
  }
  std::vector<RemoteValue> values;
  for (size_t i = 0; i < tickets.size(); ++i) values.push_back(NewValue(function));
  if (!TakeRoom(static_cast<int64_t>(tickets.size()))) {
    for (const RemoteValue& value : values) SetCancelled(value.state_.get());
    return values;
  }
  std::vector<core::ClosureSpec> step;
  std::vector<Tell> done;
  const auto accumulate = static_cast<size_t>(std::max<int64_t>(1, consistency_.accumulate));
  for (size_t i = 0; i < tickets.size(); ++i) {
    step.push_back(SpecOf(function, tickets[i], 1, arguments));
    done.push_back(TellerOf(function, values[i], &step.back()));
    if (accumulate == 1) continue;
    // Microbatches of one update had better run on one worker, if that is free.
    if (i % accumulate == 0) ++shared_->accumulations;
    if (step.back().group == 0) step.back().group = shared_->accumulations;
  }
  cluster_.controller()->ScheduleStep(std::move(step), KindOfStep(tickets.size()), std::move(done));
  return values;
}

SyncStep ClusterCoordinator::KindOfStep(size_t tickets) const {
  SyncStep kind;
  kind.mean = consistency_.reduce == GradientReduction::kMean;
  kind.free = consistency_.mode != ConsistencyMode::kSync;
  const auto beyond = static_cast<int64_t>(tickets) - consistency_.batches();
  if (!kind.free) {
    kind.backup = static_cast<uint32_t>(std::clamp<int64_t>(beyond, 0, consistency_.backup));
  }
  kind.count = static_cast<uint32_t>(tickets) - kind.backup;
  return kind;
}

RemoteValue ClusterCoordinator::ScheduleResumed(const RemoteFunction& function,
                                                const checkpoint::CheckpointClosure& closure) {
  const Ticket ticket = closure.has_ticket ? closure.ticket : Ticket{};
  if (absl::Status status = CheckCall(function, ticket, closure.arguments); !status.ok()) {
    return Refuse(std::move(status));
  }
  core::ClosureSpec spec;
  spec.plan = function.plan();
  spec.arguments = closure.arguments;
  if (closure.has_ticket) {
    spec.dataset = function.dataset();
    spec.ticket = closure.ticket;
  }
  spec.steps = closure.steps;
  spec.seed = closure.seed;
  spec.resumed = closure.id;
  spec.sync = closure.sync;
  return ScheduleSpec(function, std::move(spec));
}

absl::Status ClusterCoordinator::CheckCall(const RemoteFunction& function, const Ticket& ticket,
                                           absl::Span<const Tensor> arguments) const {
  if (function.strategy() != strategy_ && function.strategy() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", function.name(), "' belongs to strategy ", function.strategy(),
                     ", it was given to a coordinator of strategy ", strategy_));
  }
  return function.CheckCall(ticket, arguments);
}

// A closure that cannot be scheduled is one that failed by its own fault.
RemoteValue ClusterCoordinator::Refuse(absl::Status status) {
  RemoteValue value;
  value.state_ = std::make_shared<RemoteValue::State>(shared_->waits);
  status = WithDetail(std::move(status), {ErrorCause::kApplication, false, "", 0});
  {
    absl::MutexLock lock(&value.state_->mu);
    value.state_->results = status;
    value.state_->ready = true;
  }
  {
    absl::MutexLock lock(&shared_->mu);
    shared_->Begin();
  }
  if (shared_->Failed(status)) cluster_.controller()->CancelClosures(owner_);
  return value;
}

RemoteValue ClusterCoordinator::NewValue(const RemoteFunction& function) const {
  RemoteValue value;
  value.state_ = std::make_shared<RemoteValue::State>(shared_->waits);
  if (function.state_ != nullptr) value.state_->names = function.state_->names;
  return value;
}

bool ClusterCoordinator::TakeRoom(int64_t closures) {
  absl::MutexLock lock(&shared_->mu);
  Shared::Room room{shared_.get(),
                    std::max<int64_t>({1, options_.queue_size,
                                       options_.queue_per_worker * cluster_.num_workers()})};
  AwaitAloud(&shared_->mu, absl::Condition(&Shared::Room::Free, &room), [&](absl::Duration t) {
    shared_->waits.Report(absl::StrCat("room in the queue of ", room.size, " closures"), t);
  });
  shared_->Begin();
  if (shared_->stopped) return false;
  shared_->pending += closures;
  return true;
}

void ClusterCoordinator::SetCancelled(RemoteValue::State* state) {
  absl::MutexLock lock(&state->mu);
  state->ready = true;
  state->results =
      WithDetail(absl::CancelledError("an earlier closure failed and Join has not been called"),
                 {ErrorCause::kCancelled, false, "", 0});
}

ClusterCoordinator::Tell ClusterCoordinator::TellerOf(const RemoteFunction& function,
                                                      const RemoteValue& value,
                                                      core::ClosureSpec* spec) const {
  spec->owner = owner_;
  if (spec->dataset != 0 && function.state_->data != nullptr) {
    spec->group = function.state_->data->GroupOf(spec->ticket);
  }
  if (consistency_.mode == ConsistencyMode::kBounded) {
    spec->max_staleness = consistency_.max_staleness;
  }
  return [shared = shared_, state = value.state_, ticket = spec->ticket, owner = owner_,
          controller = cluster_.controller()](absl::StatusOr<std::vector<Tensor>> results) {
    if (!results.ok()) results = NameWorker(results.status());
    if (shared->observer) shared->observer(ticket, results);
    const absl::Status status = results.status();
    {
      absl::MutexLock lock(&state->mu);
      state->results = std::move(results);
      state->ready = true;
    }
    // While this closure still counts as pending, so that what is scheduled after Join stays.
    if (!status.ok() && !IsSurplus(status) && shared->Failed(status)) {
      controller->CancelClosures(owner);
    }
    absl::MutexLock lock(&shared->mu);
    --shared->pending;
  };
}

RemoteValue ClusterCoordinator::ScheduleSpec(const RemoteFunction& function,
                                             core::ClosureSpec spec) {
  RemoteValue value = NewValue(function);
  if (!TakeRoom(1)) {
    SetCancelled(value.state_.get());
    return value;
  }
  Tell done = TellerOf(function, value, &spec);
  if (consistency_.mode == ConsistencyMode::kSync && spec.resumed == 0) {
    std::vector<core::ClosureSpec> step;
    step.push_back(std::move(spec));
    cluster_.controller()->ScheduleStep(std::move(step), SyncStep(), {std::move(done)});
  } else {
    cluster_.controller()->Schedule(std::move(spec), std::move(done));
  }
  return value;
}

absl::Status ClusterCoordinator::Join() {
  absl::MutexLock lock(&shared_->mu);
  AwaitAloud(&shared_->mu, absl::Condition(&Shared::Idle, shared_.get()), [&](absl::Duration t) {
    int64_t pending;
    {
      absl::MutexLock again(&shared_->mu);
      pending = shared_->pending;
    }
    shared_->waits.Report(absl::StrCat(pending, pending == 1 ? " closure" : " closures"), t);
  });
  shared_->stopped = false;
  shared_->joined = true;
  return std::exchange(shared_->error, absl::OkStatus());
}

std::vector<absl::Status> ClusterCoordinator::errors() const {
  absl::MutexLock lock(&shared_->mu);
  return shared_->errors;
}

int64_t ClusterCoordinator::failed() const {
  absl::MutexLock lock(&shared_->mu);
  return shared_->failed;
}

bool ClusterCoordinator::Done() const {
  absl::MutexLock lock(&shared_->mu);
  return shared_->pending == 0;
}

bool ClusterCoordinator::Done(absl::Duration wait) const {
  absl::MutexLock lock(&shared_->mu);
  return shared_->mu.AwaitWithTimeout(absl::Condition(&Shared::Idle, shared_.get()), wait);
}

void ClusterCoordinator::Cancel() { cluster_.controller()->CancelClosures(owner_); }

absl::StatusOr<Tensor> ClusterCoordinator::Fetch(const RemoteValue& value,
                                                 absl::string_view result) const {
  ASSIGN_OR_RETURN(std::vector<Tensor> results, value.Get());
  const ResultNames& names = *value.state_->names;
  const auto found = std::find(names.results.begin(), names.results.end(), result);
  const auto place = static_cast<size_t>(found - names.results.begin());
  if (place < results.size()) return results[place];
  return absl::NotFoundError(absl::StrCat(
      "function '", names.function, "' has no result '", result,
      "'; it has: ", names.results.empty() ? "none" : absl::StrJoin(names.results, ", ")));
}

absl::Status ClusterCoordinator::CheckNumber(const Tensor& tensor, absl::string_view result,
                                             DType dtype) {
  if (tensor.dtype() == dtype && tensor.num_elements() >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("result '", result, "' is ", tensor.ToString(),
                                                 ", wanted one ", DTypeName(dtype)));
}

DispatcherStats ClusterCoordinator::stats() const { return cluster_.Stats().closures; }

}  // namespace coxswain
