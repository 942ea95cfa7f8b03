// What the controller does about closures that take too long on a worker that is alive, or seems
// so.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

// A worker on which one closure after the other takes too long, and none ends, is set up anew;
// after a while that doubles each time.
constexpr int kMostTimeouts = 2;
constexpr absl::Duration kFirstRest = absl::Seconds(1), kLongestRest = absl::Minutes(5);
constexpr int kMostDoublings = 10;
// That one closure holds up all others is said after the first and then every second of these.
constexpr absl::Duration kSayAfter = absl::Seconds(5), kSayAgain = absl::Seconds(30);

std::string Text(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(100)));
}

}  // namespace

void Controller::CheckDeadlines(absl::Duration now) {
  // Closures can do nothing about a PS that is lost.
  deadlines_.Tick(now, recovery_.running());
  if (!recovery_.running() || !failed_.ok()) return;
  struct Overdue {
    ClosureId closure;
    int worker;
    absl::Duration allowed;
  };
  std::vector<Overdue> overdue;
  for (const auto& [id, worker] : dispatcher_.Running()) {
    const PendingClosure& pending = closures_.at(id);
    const absl::Duration allowed = deadlines_.Allowed(pending.spec.plan, dispatcher_.overdue(id));
    if (deadlines_.Clock(now) - pending.begun > allowed) overdue.push_back({id, worker, allowed});
  }
  for (const Overdue& o : overdue) {
    // One before may have ended the job, or taken all from this worker.
    if (failed_.ok() && dispatcher_.IsRunning(o.closure)) {
      OnOverdue(o.closure, o.worker, o.allowed);
    }
  }
  if (!overdue.empty()) Dispatch();

  if (HeldBackBy().empty()) {
    held_back_since_ = held_back_said_ = std::nullopt;
    return;
  }
  if (!held_back_since_) held_back_since_ = now;
  if (held_back_said_ ? now - *held_back_said_ >= kSayAgain
                      : now - *held_back_since_ >= kSayAfter) {
    held_back_said_ = now;
    Emit(ClusterEvent::Kind::kWaiting, "", absl::StrCat("waiting for ", HeldBackBy()));
  }
}

std::string Controller::HeldBackBy() const {
  if (!dispatcher_.held_back() || !recovery_.running()) return "";
  const ClosureId oldest = dispatcher_.low_water();
  const auto it = closures_.find(oldest);
  return absl::StrCat(it == closures_.end() ? absl::StrCat("closure ", oldest)
                                            : DescribeClosure(oldest, it->second.spec),
                      " to end, which is too far behind the others");
}

void Controller::OnOverdue(ClosureId id, int worker, absl::Duration allowed) {
  PendingClosure& pending = closures_.at(id);
  WorkerState& state = worker_states_[worker];
  const std::string task = workers_[worker]->name();
  ++failures_.timeouts;
  ++state.timeouts;
  if (!pending.overdue_begun) pending.overdue_begun = pending.begun;
  AskToCancel(worker, {id});
  const int times = dispatcher_.overdue(id) + 1;
  if (pending.cancelled) {
    dispatcher_.GiveUp(id);
    Resolve(id, WithDetail(absl::CancelledError(absl::StrCat("closure ", id, " was cancelled")),
                           {ErrorCause::kCancelled, false, "", 0}));
  } else if (times >= options_.recovery.most_timeouts) {
    dispatcher_.GiveUp(id);
    ++failures_.quarantined;
    const absl::Status status =
        WithDetail(absl::DeadlineExceededError(absl::StrCat(
                       DescribeClosure(id, pending.spec), " was not done in time in ", times,
                       times == 1 ? " attempt" : " attempts", ", the last time within ",
                       Text(allowed), " on ", task, "; it is not run again")),
                   {ErrorCause::kQuarantined, false, task, 0});
    Emit(ClusterEvent::Kind::kQuarantined, task, std::string(status.message()));
    Resolve(id, status);
  } else {
    Emit(ClusterEvent::Kind::kTimeout, task,
         absl::StrCat("has not done a step of ", DescribeClosure(id, pending.spec), " within ",
                      Text(allowed), "; it runs ",
                      dispatcher_.workers() > 1 ? "elsewhere" : "again"));
    dispatcher_.Overdue(id);
  }
  if (state.timeouts < kMostTimeouts || !state.ready) return;
  // It answers pings and does nothing else; or its way to a PS is of that kind. Its closures may
  // wait for one another there.
  const int others = TakeOut(worker, /*blame=*/false);
  const absl::Duration rest =
      std::min({kLongestRest, options_.recovery.cluster_timeout / 4,
                kFirstRest * (1 << std::min(state.timeouts - kMostTimeouts, kMostDoublings))});
  refusals_[task] = absl::DeadlineExceededError(absl::StrCat(
      task, ": ", state.timeouts, " closures one after the other were not done in time"));
  LogWarning(refusals_[task].message(), "; it gets none for ", absl::FormatDuration(rest),
             others > 0 ? ", and what it has runs elsewhere" : "");
  AskToCancel(worker, {});
  state.new_streams = true;
  RetrySetUp(worker, rest);
}

// No closures: all.
void Controller::AskToCancel(int worker, const std::vector<ClosureId>& closures) {
  proto::ControlRequest request;
  request.mutable_cancel_closures();
  for (ClosureId id : closures) request.mutable_cancel_closures()->add_closures(id);
  workers_[worker]->Request(std::move(request), {}, [](auto) {});  // the closures' replies tell
}

void Controller::MeasureStep(PendingClosure* pending, uint32_t steps_done, bool overdue) {
  const absl::Duration clock = deadlines_.Clock(env_->Monotonic());
  const uint32_t steps = steps_done > pending->first_step ? steps_done - pending->first_step : 1;
  const absl::Duration begun =
      overdue ? pending->overdue_begun.value_or(pending->begun) : pending->begun;
  deadlines_.Measure(pending->spec.plan, (clock - begun) / steps);
  pending->begun = clock;
}

}  // namespace coxswain
