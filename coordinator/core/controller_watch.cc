// The controller reports what it waits for, and limits its waits.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"

namespace coxswain::core {
namespace {

constexpr absl::Duration kWatchInterval = ClosureDeadlines::kInterval;

}  // namespace

std::string Controller::WaitingFor() const {
  if (recovery_.phase() == Phase::kMoving) return "shards to move to other parameter servers";
  if (!recovery_.running()) {
    return absl::StrCat(recovery_.restoring() ? "shards to be restored" : "parameter servers", ": ",
                        recovery_.ToString(env_->Monotonic()));
  }
  if (closures_.workers() == 0) {
    return absl::StrCat("a worker: ", absl::StrJoin(MissingTasks(), "; "));
  }
  return "";
}

// Reports the cause when no closure can run, and ends the wait when it takes too long.
void Controller::Watch() {
  const absl::Duration now = env_->Monotonic();
  loop_.PostAfter(kWatchInterval, [this, due = now + kWatchInterval] {
    // Time in which this process itself stood still does not count as waiting.
    const absl::Duration late = env_->Monotonic() - due;
    if (late > kWatchInterval) waits_.Discount(late);
    Watch();
  });
  WatchCheckpoint(now);
  CheckDeadlines(now);
  const std::string waiting_for = WaitingFor();
  if (waiting_for.empty() || (closures_.empty() && parked_.empty()) || !life_.failed().ok()) {
    waits_.NotStalled();
    return;
  }
  switch (waits_.Stalled(now, most_stall_)) {
    case LongWaits::Stall::kQuiet:
      break;
    case LongWaits::Stall::kSay:
      Emit(ClusterEvent::Kind::kWaiting, "",
           absl::StrCat("waiting for ", waiting_for, "; the job fails if that takes more than ",
                        absl::FormatDuration(most_stall_)));
      break;
    case LongWaits::Stall::kTooLong:
      FailAll(WithDetail(
          absl::UnavailableError(absl::StrCat(
              "nothing could run for ",
              absl::FormatDuration(absl::Trunc(waits_.stalled_for(now), absl::Milliseconds(100))),
              "; waited for ", waiting_for)),
          {ErrorCause::kUnreachable, true, "", 0}));
  }
}

void Controller::LimitStalls(absl::Duration most) {
  loop_.Post([this, most] {
    most_stall_ = std::min(most_stall_, most);
    waits_.NotStalled();  // it counts from now
    const std::string waiting_for = WaitingFor();
    if (waiting_for.empty() || !life_.started() || life_.ending()) return;
    Emit(ClusterEvent::Kind::kWaiting, "",
         absl::StrCat("still waiting for ", waiting_for, "; the job ends without if that takes ",
                      "more than ", absl::FormatDuration(most_stall_)));
  });
}

void Controller::WatchCheckpoint(absl::Duration now) {
  const Checkpointer* const writer = checkpoints_.writer();
  const absl::Duration age = writer == nullptr ? absl::ZeroDuration() : writer->age(now);
  if (waits_.SayCheckpoint(age, now)) {
    Emit(ClusterEvent::Kind::kWaiting, "",
         absl::StrCat(writer->ToString(now), "; training ",
                      step_pause_.on() ? "waits for it" : "goes on",
                      ", and no other checkpoint is written meanwhile"));
  }
}

}  // namespace coxswain::core
