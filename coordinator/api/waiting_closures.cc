// What a coordinator knows of its closures, and those of them that wait for their arguments: how
// they start, and how they end without having started.
#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/coordinator_state.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"
#include "runtime/env/env.h"

namespace coxswain {

bool ClusterCoordinator::Shared::OwnFault(const absl::Status& status) {
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

absl::Status ClusterCoordinator::Shared::NotQueued() {
  return WithDetail(absl::CancelledError("an earlier closure failed and Join has not been called"),
                    {ErrorCause::kCancelled, false, "", 0});
}

bool ClusterCoordinator::Shared::Failed(const absl::Status& status) {
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

void ClusterCoordinator::Shared::Remember(const std::shared_ptr<Waiting>& one) {
  absl::MutexLock lock(&mu);
  waiting.insert({one->deadline, one});
}

void ClusterCoordinator::Shared::Forget(const std::shared_ptr<Waiting>& one) {
  absl::MutexLock lock(&mu);
  waiting.erase({one->deadline, one});
}

void ClusterCoordinator::Shared::SetAlarm(const std::shared_ptr<Shared>& shared,
                                          core::Controller* controller) {
  const std::weak_ptr<Shared> weak = shared;
  absl::MutexLock lock(&shared->mu);
  if (shared->waiting.empty()) return;
  const absl::Duration next = shared->waiting.begin()->first;
  if (next >= shared->alarm.rings) return;
  controller->DropCall(shared->alarm.timer);
  // Not at once: this thread has the lock.
  const absl::Duration time = std::max(next - controller->env()->Monotonic(), absl::Nanoseconds(1));
  shared->alarm = {next, controller->CallAfter(time, [weak, controller, next] {
                     if (const auto there = weak.lock()) Ring(there, controller, next);
                   })};
}

void ClusterCoordinator::Shared::DropAlarm(core::Controller* controller) {
  absl::MutexLock lock(&mu);
  controller->DropCall(std::exchange(alarm, Alarm{}).timer);
}

void ClusterCoordinator::Shared::Ring(const std::shared_ptr<Shared>& shared,
                                      core::Controller* controller, absl::Duration rings) {
  const absl::Duration now = controller->env()->Monotonic();
  std::vector<std::shared_ptr<Waiting>> late;
  {
    absl::MutexLock lock(&shared->mu);
    if (shared->alarm.rings != rings) return;  // it was dropped just now
    shared->alarm = {};
    for (const auto& [deadline, one] : shared->waiting) {
      if (deadline > now) break;
      late.push_back(one);
    }
  }
  for (const std::shared_ptr<Waiting>& one : late) {
    shared->Fail(
        one, WithDetail(absl::DeadlineExceededError("its arguments were not there by its deadline"),
                        {ErrorCause::kCancelled, false, "", 0}));
  }
  SetAlarm(shared, controller);
}

// The loop may run what is posted at once, in this thread: so no lock is held then. Of closures
// that wait for one another the loop runs each in a turn of its own, however long the chain.
void ClusterCoordinator::Shared::Fail(const std::shared_ptr<Waiting>& one, absl::Status status) {
  status = WithEffect(std::move(status), Effect::kNothing);
  {
    absl::MutexLock lock(&one->mu);
    if (one->done) return;
    if (one->launching) {
      one->unwanted.Update(status);
      return;
    }
    one->done = true;
  }
  Forget(one);
  one->LetGo();
  one->coordinator->cluster_.controller()->Call(
      [one, status = std::move(status)] { one->tell(status); });
}

void ClusterCoordinator::Shared::CancelAll(core::Controller* controller, uint64_t owner) {
  std::set<std::pair<absl::Duration, std::shared_ptr<Waiting>>> all;
  {
    absl::MutexLock lock(&mu);
    all = waiting;
  }
  for (const auto& [deadline, one] : all) {
    Fail(one, WithDetail(absl::CancelledError("cancelled before its arguments were there"),
                         {ErrorCause::kCancelled, false, "", 0}));
  }
  controller->CancelClosures(owner);
}

absl::Status ClusterCoordinator::BadArgument(const RemoteFunction& function, size_t index,
                                             const absl::Status& status) {
  // Of a chain of closures that wait for one another the first one is named.
  if (status.GetPayload(kArgumentUrl)) return status;
  absl::Status bad =
      Annotate(status, absl::StrCat("function '", function.name(), "': argument ", index));
  bad.SetPayload(kArgumentUrl, absl::Cord("1"));
  if (!GetDetail(bad)) bad = WithDetail(std::move(bad), {ErrorCause::kApplication, false, "", 0});
  return bad;
}

RemoteValue ClusterCoordinator::ScheduleLater(const RemoteFunction& function,
                                              ScheduleOptions options) {
  RemoteValue value = NewValue(function);
  if (!TakeRoom(1)) {
    value.state_->Set(Shared::NotQueued());
    return value;
  }
  auto one = std::make_shared<Waiting>(DeadlineIn(options.deadline));
  one->coordinator = this;
  one->function = function;
  one->spec = SpecOf(function, options.ticket, options.steps, {});
  one->spec.deadline = one->deadline;
  one->value = value;
  one->tell = TellerOf(function, value, &one->spec);
  one->arguments = std::move(options.arguments);
  {
    absl::MutexLock lock(&one->mu);
    one->missing = one->arguments.size();
  }
  shared_->Remember(one);
  const std::weak_ptr<Waiting> weak = one;
  {
    absl::MutexLock lock(&value.state_->mu);
    value.state_->stop_waiting = [weak, shared = shared_] {
      if (const auto there = weak.lock()) {
        shared->Fail(there,
                     WithDetail(absl::CancelledError("cancelled before its arguments were there"),
                                {ErrorCause::kCancelled, false, "", 0}));
      }
    };
  }
  Shared::SetAlarm(shared_, cluster_.controller());
  std::vector<std::pair<std::shared_ptr<RemoteValue::State>, uint64_t>> calls;
  for (const ClosureArgument& argument : one->arguments) {
    const auto is_there = [weak] {
      if (const auto there = weak.lock()) Waiting::OnArgument(there);
    };
    if (const auto& state = argument.value_.state_; state != nullptr) {
      calls.emplace_back(state, state->WhenReady(is_there));
    } else {
      is_there();
    }
  }
  bool over;
  {
    absl::MutexLock lock(&one->mu);
    one->calls = std::move(calls);
    over = one->done;
  }
  if (over) one->LetGo();
  return value;
}

void ClusterCoordinator::Waiting::OnArgument(const std::shared_ptr<Waiting>& one) {
  {
    absl::MutexLock lock(&one->mu);
    if (--one->missing > 0 || one->done) return;
    one->launching = true;  // so that the coordinator is there until LaunchWaiting
  }
  one->coordinator->cluster_.controller()->Call([one] { LaunchWaiting(one); });
}

void ClusterCoordinator::Waiting::LetGo() {
  std::vector<std::pair<std::shared_ptr<RemoteValue::State>, uint64_t>> dropped;
  {
    absl::MutexLock lock(&mu);
    dropped.swap(calls);
  }
  for (const auto& [argument, call] : dropped) argument->DropCall(call);
}

void ClusterCoordinator::LaunchWaiting(const std::shared_ptr<Waiting>& one) {
  ClusterCoordinator* const self = one->coordinator;
  self->shared_->Forget(one);
  absl::Status status;
  {
    absl::MutexLock lock(&one->mu);
    one->done = true;
    status = one->unwanted;
  }
  std::vector<Tensor> arguments;
  for (const ClosureArgument& argument : one->arguments) {
    if (!status.ok()) break;
    absl::StatusOr<Tensor> value = argument.Value();
    if (!value.ok()) {
      status = BadArgument(one->function, arguments.size(), value.status());
      break;
    }
    arguments.push_back(*std::move(value));
  }
  if (status.ok()) status = self->CheckCall(one->function, one->spec.ticket, arguments);
  if (!status.ok()) {
    if (!GetDetail(status)) {
      status = WithDetail(std::move(status), {ErrorCause::kApplication, false, "", 0});
    }
    one->tell(WithEffect(std::move(status), Effect::kNothing));
    return;
  }
  one->spec.arguments = std::move(arguments);
  core::Controller* const controller = self->cluster_.controller();
  const RemoteValue value = one->value;
  self->Launch(std::move(one->spec), std::move(one->tell), value);
  // Nobody has heard of it who cancelled it before it had a number.
  if (value.state_->CancelledByProgram()) {
    controller->CancelClosure({value.state_, &value.state_->number});
  }
}

}  // namespace coxswain
