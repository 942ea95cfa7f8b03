// Schedule in its forms, and how one waits for closures and gets at their results. Those that wait
// for others are in waiting_closures.cc.
#include "coxswain/cluster_coordinator.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/api/coordinator_state.h"
#include "coordinator/api/read_as_one.h"
#include "coordinator/api/remote_function_state.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

bool IsSurplus(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail && detail->cause == ErrorCause::kSurplus;
}

// An error of the closure itself, prefixed with the worker that reported it.
absl::Status NameWorker(const absl::Status& status) {
  const auto detail = GetDetail(status);
  if (!detail || detail->cause != ErrorCause::kApplication || detail->task.empty()) return status;
  if (status.GetPayload(kArgumentUrl)) return status;  // it names the worker of the closure before
  return Annotate(status, detail->task);
}

// Each step has an example, if the closure has any.
absl::Status CheckSteps(const RemoteFunction& function, const Ticket& ticket, uint32_t steps) {
  if (steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", function.name(), "': wanted at least 1 step, found 0"));
  }
  if (ticket.size() <= 0 || steps <= ticket.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "function '", function.name(), "': wanted at most as many steps as the ticket has examples, ",
      ticket.size(), ", found ", steps, " (", ticket.ToString(), ")"));
}

// Of a closure of a step.
const std::vector<Tensor>& ArgumentsOf(const StepOptions& options, size_t closure) {
  return options.arguments_each.empty() ? options.arguments : options.arguments_each[closure];
}

}  // namespace

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
  JoinScheduled().IgnoreError();
  shared_->DropAlarm(cluster_.controller());
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
  absl::Status status = CheckCall(function, ticket, arguments);
  status.Update(CheckAlone(function));
  status.Update(CheckSteps(function, ticket, steps));
  if (!status.ok()) return Refuse(std::move(status));
  return ScheduleSpec(function, SpecOf(function, ticket, steps, std::move(arguments)));
}

RemoteValue ClusterCoordinator::Schedule(const RemoteFunction& function, ScheduleOptions options) {
  absl::Status refused = CheckSteps(function, options.ticket, options.steps);
  refused.Update(CheckAlone(function));
  if (!refused.ok()) return Refuse(std::move(refused));
  const bool ready = std::all_of(options.arguments.begin(), options.arguments.end(),
                                 [](const ClosureArgument& a) { return a.Ready(); });
  if (!ready) return ScheduleLater(function, std::move(options));
  std::vector<Tensor> arguments;
  for (const ClosureArgument& argument : options.arguments) {
    absl::StatusOr<Tensor> value = argument.Value();
    if (!value.ok()) {
      return Refuse(BadArgument(function, arguments.size(), value.status()));
    }
    arguments.push_back(*std::move(value));
  }
  if (absl::Status status = CheckCall(function, options.ticket, arguments); !status.ok()) {
    return Refuse(std::move(status));
  }
  core::ClosureSpec spec = SpecOf(function, options.ticket, options.steps, std::move(arguments));
  spec.deadline = DeadlineIn(options.deadline);
  return ScheduleSpec(function, std::move(spec));
}

// Its gradients would be applied as they come, and nobody would say that the strategy's groups or
// microbatches are none.
absl::Status ClusterCoordinator::CheckAlone(const RemoteFunction& function) const {
  const bool several = consistency_.mode == ConsistencyMode::kHybrid || consistency_.accumulate > 1;
  if (!several || function.state_ == nullptr || !function.state_->trains) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "function '", function.name(), "' trains, and with Consistency kHybrid, or accumulate, an ",
      "update is of the batches that are given to ScheduleStep; it was given to Schedule"));
}

absl::Duration ClusterCoordinator::DeadlineIn(absl::Duration time) const {
  return cluster_.env()->Monotonic() + std::max(time, absl::ZeroDuration());
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
                                           const StepOptions& options) const {
  if (!consistency_.in_steps()) {
    return absl::FailedPreconditionError(
        "synchronous steps are for a strategy with Consistency kSync or kHybrid, or accumulate");
  }
  if (tickets.empty() || KindOfStep(tickets.size()).count > Consistency::kMostReplicas) {
    return absl::InvalidArgumentError(absl::StrCat("a synchronous step has 1 to ",
                                                   Consistency::kMostReplicas, " tickets, found ",
                                                   tickets.size()));
  }
  const size_t lists = options.arguments_each.size();
  if (lists > 0 && (lists != tickets.size() || !options.arguments.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", function.name(), "': wanted arguments for all closures, or ",
                     tickets.size(), " lists of them, one for each ticket; found ", lists, " lists",
                     options.arguments.empty() ? "" : " and arguments for all"));
  }
  for (size_t i = 0; i < tickets.size(); ++i) {
    RETURN_IF_ERROR(CheckCall(function, tickets[i], ArgumentsOf(options, i)));
  }
  // Its addition would be held until all of the update are there, and others would read the same
  // number meanwhile.
  if (consistency_.mode != ConsistencyMode::kSync && !function.state_->fetched.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "function '", function.name(), "' takes numbers from '", function.state_->fetched,
        "' (FetchAdd), which updates of several batches (kHybrid, or accumulate) would give twice; "
        "wanted AssignAdd, or a function of its own that is given to Schedule"));
  }
  return absl::OkStatus();
}

std::vector<RemoteValue> ClusterCoordinator::ScheduleStep(const RemoteFunction& function,
                                                          absl::Span<const Ticket> tickets,
                                                          const StepOptions& options) {
  if (absl::Status status = CheckStep(function, tickets, options); !status.ok()) {
    return std::vector<RemoteValue>(std::max<size_t>(1, tickets.size()), Refuse(status));
  }
  std::vector<RemoteValue> values;
  for (size_t i = 0; i < tickets.size(); ++i) values.push_back(NewValue(function));
  if (!TakeRoom(static_cast<int64_t>(tickets.size()))) {
    for (const RemoteValue& value : values) value.state_->Set(Shared::NotQueued());
    return values;
  }
  std::vector<core::ClosureSpec> step;
  std::vector<Tell> done;
  std::vector<core::Controller::ClosureNumber> numbers;
  const absl::Duration deadline = DeadlineIn(options.deadline);
  const auto accumulate = static_cast<size_t>(std::max<int64_t>(1, consistency_.accumulate));
  for (size_t i = 0; i < tickets.size(); ++i) {
    step.push_back(SpecOf(function, tickets[i], 1, ArgumentsOf(options, i)));
    step.back().deadline = deadline;
    done.push_back(TellerOf(function, values[i], &step.back()));
    numbers.emplace_back(values[i].state_, &values[i].state_->number);
    if (accumulate == 1) continue;
    // Microbatches of one update had better run on one worker, if that is free.
    if (i % accumulate == 0) ++shared_->accumulations;
    if (step.back().group == 0) step.back().group = shared_->accumulations;
  }
  cluster_.controller()->ScheduleStep(std::move(step), KindOfStep(tickets.size()), std::move(done),
                                      std::move(numbers));
  return values;
}

SyncStep ClusterCoordinator::KindOfStep(size_t tickets) const {
  SyncStep kind;
  kind.mean = consistency_.reduce == GradientReduction::kMean;
  kind.each = consistency_.reduce == GradientReduction::kNone;
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

// A closure that cannot be scheduled has failed by its own fault.
RemoteValue ClusterCoordinator::Refuse(absl::Status status) {
  RemoteValue value;
  value.state_ = std::make_shared<RemoteValue::State>(shared_->waits);
  status = WithDetail(std::move(status), {ErrorCause::kApplication, false, "", 0});
  value.state_->Set(status);
  {
    absl::MutexLock lock(&shared_->mu);
    shared_->Begin();
  }
  if (shared_->Failed(status)) shared_->CancelAll(cluster_.controller(), owner_);
  return value;
}

RemoteValue ClusterCoordinator::NewValue(const RemoteFunction& function) const {
  RemoteValue value;
  value.state_ = std::make_shared<RemoteValue::State>(shared_->waits);
  if (function.state_ != nullptr) value.state_->names = function.state_->names;
  return value;
}

int64_t ClusterCoordinator::QueueSize() const {
  return std::max<int64_t>(
      {1, options_.queue_size, options_.queue_per_worker * cluster_.num_workers()});
}

bool ClusterCoordinator::HasRoom(absl::Duration wait) const {
  absl::MutexLock lock(&shared_->mu);
  Shared::Room room{shared_.get(), QueueSize()};
  return shared_->mu.AwaitWithTimeout(absl::Condition(&Shared::Room::Free, &room), wait);
}

bool ClusterCoordinator::TakeRoom(int64_t closures) {
  absl::MutexLock lock(&shared_->mu);
  Shared::Room room{shared_.get(), QueueSize()};
  AwaitAloud(&shared_->mu, absl::Condition(&Shared::Room::Free, &room), [&](absl::Duration t) {
    shared_->waits.Report(absl::StrCat("room in the queue of ", room.size, " closures"), t);
  });
  return shared_->Enter(closures);
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
    const bool wanted = absl::IsCancelled(status) && state->CancelledByProgram();
    state->Set(std::move(results));
    // While this closure still counts as pending, so that what is scheduled after Join stays.
    if (!status.ok() && !wanted && !IsSurplus(status) && shared->Failed(status)) {
      shared->CancelAll(controller, owner);
    }
    absl::MutexLock lock(&shared->mu);
    --shared->pending;
  };
}

RemoteValue ClusterCoordinator::ScheduleSpec(const RemoteFunction& function,
                                             core::ClosureSpec spec) {
  RemoteValue value = NewValue(function);
  if (!(spec.resumed != 0 ? shared_->EnterAtOnce() : TakeRoom(1))) {
    value.state_->Set(Shared::NotQueued());
    return value;
  }
  Tell done = TellerOf(function, value, &spec);
  Launch(std::move(spec), std::move(done), value);
  return value;
}

void ClusterCoordinator::Launch(core::ClosureSpec spec, Tell done, const RemoteValue& value) {
  core::Controller::ClosureNumber number(value.state_, &value.state_->number);
  if (consistency_.mode == ConsistencyMode::kSync && spec.resumed == 0) {
    std::vector<core::ClosureSpec> step;
    step.push_back(std::move(spec));
    cluster_.controller()->ScheduleStep(std::move(step), SyncStep(), {std::move(done)},
                                        {std::move(number)});
  } else {
    cluster_.controller()->Schedule(std::move(spec), std::move(done), std::move(number));
  }
}

absl::Status ClusterCoordinator::Join() {
  absl::Status status = JoinScheduled();
  status.Update(AwaitRerun(cluster_).status());
  return status;
}

absl::Status ClusterCoordinator::JoinScheduled() {
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

void ClusterCoordinator::Cancel() { shared_->CancelAll(cluster_.controller(), owner_); }

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

absl::StatusOr<std::vector<std::vector<Tensor>>> ClusterCoordinator::Fetch(
    const std::vector<RemoteValue>& values) const {
  std::vector<std::vector<Tensor>> all;
  for (const RemoteValue& value : values) {
    ASSIGN_OR_RETURN(std::vector<Tensor> results, value.Get());
    all.push_back(std::move(results));
  }
  return all;
}

absl::StatusOr<std::map<std::string, Tensor>> ClusterCoordinator::FetchGroup(
    const RemoteValue& value, absl::string_view group) const {
  ASSIGN_OR_RETURN(std::vector<Tensor> results, value.Get());
  const ResultNames& names = *value.state_->names;
  const std::string prefix = group.empty() ? "" : absl::StrCat(group, "/");
  std::map<std::string, Tensor> found;
  for (size_t i = 0; i < results.size(); ++i) {
    absl::string_view name = names.results[i];
    if (absl::ConsumePrefix(&name, prefix)) found[std::string(name)] = results[i];
  }
  if (!found.empty() || group.empty()) return found;
  return absl::NotFoundError(absl::StrCat("function '", names.function, "' has no results in '",
                                          group,
                                          "'; it has: ", absl::StrJoin(names.results, ", ")));
}

absl::Status ClusterCoordinator::CheckNumber(const Tensor& tensor, absl::string_view result,
                                             DType dtype) {
  if (tensor.dtype() == dtype && tensor.num_elements() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("result '", result, "' is ", tensor.ToString(),
                                                 ", wanted one ", DTypeName(dtype)));
}

DispatcherStats ClusterCoordinator::stats() const { return cluster_.Stats().closures; }

}  // namespace coxswain
