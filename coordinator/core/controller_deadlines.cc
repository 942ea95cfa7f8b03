// What the controller does about closures that take too long on a worker that is alive, or seems
// so.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::core {
namespace {

std::string Text(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(100)));
}

}  // namespace

void Controller::CheckDeadlines(absl::Duration now) {
  // Closures can do nothing about a PS that is lost.
  closures_.Tick(now, recovery_.running());
  if (!recovery_.running() || !life_.failed().ok()) return;
  const std::vector<ClosureTable::Overdue> overdue = closures_.FindOverdue(now);
  for (const ClosureTable::Overdue& o : overdue) {
    // One before may have ended the job, or taken all from this worker.
    if (life_.failed().ok() && closures_.IsRunning(o.closure)) OnOverdue(o);
  }
  if (!overdue.empty()) Dispatch();

  const std::string oldest = HeldBackBy();
  if (waits_.SayHeldBack(!oldest.empty(), now)) {
    Emit(ClusterEvent::Kind::kWaiting, "", absl::StrCat("waiting for ", oldest));
  }
}

void Controller::SetExpiryAlarm() {
  const absl::Duration next = closures_.next_expiry();
  if (next >= expiry_alarm_) return;
  const absl::Duration now = env_->Monotonic();
  if (next <= now) {
    ExpireClosures();
    return;
  }
  expiry_alarm_ = next;
  loop_.PostAfter(next - now, [this, next] {
    if (expiry_alarm_ != next) return;  // an earlier one was set
    expiry_alarm_ = absl::InfiniteDuration();
    ExpireClosures();
  });
}

void Controller::ExpireClosures() {
  for (const ClosureId id : closures_.TakeExpired(env_->Monotonic())) {
    const ClosureTable::Closure* const closure = closures_.Find(id);
    if (closure == nullptr) continue;  // it ended with one before
    if (closure->expired && closures_.IsRunning(id)) {
      // Its worker was asked a while ago. Whatever it still does, it does once.
      closures_.GiveUp(id);
      Resolve(id, EndedEarly(id));
    } else {
      EndEarly(id, /*expired=*/true);
    }
  }
  SetExpiryAlarm();
  Dispatch();
}

std::string Controller::HeldBackBy() const {
  const auto oldest = closures_.held_back_by();
  if (!oldest || !recovery_.running()) return "";
  return absl::StrCat(closures_.Describe(*oldest), " to end, which is too far behind the others");
}

void Controller::OnOverdue(const ClosureTable::Overdue& overdue) {
  const auto [id, worker, allowed] = overdue;
  const std::string task = tasks_.workers()[worker]->name(), closure = closures_.Describe(id);
  ++failures_.stats().timeouts;
  AskToCancel(worker, {id});
  const auto [fate, times] = closures_.TookTooLong(id);
  switch (fate) {
    case ClosureTable::Late::kCancelled:
      Resolve(id, EndedEarly(id));
      break;
    case ClosureTable::Late::kGivenUp: {
      ++failures_.stats().quarantined;
      const absl::Status status = WithDetail(
          absl::DeadlineExceededError(absl::StrCat(
              closure, " was not done in time in ", times, times == 1 ? " attempt" : " attempts",
              ", the last time within ", Text(allowed), " on ", task, "; it is not run again")),
          {ErrorCause::kQuarantined, false, task, 0});
      Emit(ClusterEvent::Kind::kQuarantined, task, std::string(status.message()));
      Resolve(id, status);
      break;
    }
    case ClosureTable::Late::kRunsAgain:
      Emit(ClusterEvent::Kind::kTimeout, task,
           absl::StrCat("has not done a step of ", closure, " within ", Text(allowed), "; it runs ",
                        closures_.workers() > 1 ? "elsewhere" : "again"));
  }
  // It answers pings and does nothing else; or its way to a PS is of that kind. Its closures may
  // wait for one another there.
  const auto rest = worker_table_.TimedOut(worker, options_.recovery.cluster_timeout / 4);
  if (!rest) return;
  const int others = TakeOut(worker, /*blame=*/false);
  const absl::Status why = absl::DeadlineExceededError(absl::StrCat(
      task, ": ", rest->timeouts, " closures one after the other were not done in time"));
  tasks_.Refused(task, why);
  LogWarning(why.message(), "; it gets none for ", absl::FormatDuration(rest->time),
             others > 0 ? ", and what it has runs elsewhere" : "");
  AskToCancel(worker, {});
  RetrySetUp(worker, rest->time);
}

// No closures: all.
void Controller::AskToCancel(int worker, const std::vector<ClosureId>& closures) {
  proto::ControlRequest request;
  request.mutable_cancel_closures();
  for (ClosureId id : closures) request.mutable_cancel_closures()->add_closures(id);
  tasks_.workers()[worker]->Request(std::move(request), {},
                                    [](auto) {});  // the closures' replies tell
}

}  // namespace coxswain::core
