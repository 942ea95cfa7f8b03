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
  one->coordinator->cluster_.controller()->CallAfter(
      absl::ZeroDuration(), [one, status = std::move(status)] { one->tell(status); });
}

void ClusterCoordinator::Shared::CancelAll(core::Controller* controller, uint64_t owner) {
  std::set<std::shared_ptr<Waiting>> all;
  {
    absl::MutexLock lock(&mu);
    all = waiting;
  }
  for (const std::shared_ptr<Waiting>& one : all) {
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
  auto one = std::make_shared<Waiting>();
  one->coordinator = this;
  one->function = function;
  one->spec = SpecOf(function, options.ticket, options.steps, {});
  one->spec.deadline = DeadlineIn(options.deadline);
  one->value = value;
  one->tell = TellerOf(function, value, &one->spec);
  one->arguments = std::move(options.arguments);
  {
    absl::MutexLock lock(&one->mu);
    one->missing = one->arguments.size();
  }
  {
    absl::MutexLock lock(&shared_->mu);
    shared_->waiting.insert(one);
  }
  const std::weak_ptr<Waiting> weak = one;
  const auto end = [weak, shared = shared_](const absl::Status& why) {
    if (const auto there = weak.lock()) {
      shared->Fail(there, WithDetail(why, {ErrorCause::kCancelled, false, "", 0}));
    }
  };
  {
    absl::MutexLock lock(&value.state_->mu);
    value.state_->stop_waiting = [end] {
      end(absl::CancelledError("cancelled before its arguments were there"));
    };
  }
  if (options.deadline != absl::InfiniteDuration()) {
    cluster_.controller()->CallAfter(std::max(options.deadline, absl::ZeroDuration()), [end] {
      end(absl::DeadlineExceededError("its arguments were not there by its deadline"));
    });
  }
  for (const ClosureArgument& argument : one->arguments) {
    const auto is_there = [one] {
      {
        absl::MutexLock lock(&one->mu);
        if (--one->missing > 0 || one->done) return;
        one->launching = true;  // so that the coordinator is there until LaunchWaiting
      }
      one->coordinator->cluster_.controller()->CallAfter(absl::ZeroDuration(),
                                                         [one] { LaunchWaiting(one); });
    };
    if (argument.value_.state_ == nullptr) {
      is_there();
    } else {
      argument.value_.state_->WhenReady(is_there);
    }
  }
  return value;
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
