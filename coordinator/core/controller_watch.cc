// The controller says what it waits for, and does not wait for ever.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr absl::Duration kWatchInterval = ClosureDeadlines::kInterval;
// A wait is mentioned after the first and then every second of these.
constexpr absl::Duration kSayAfter = absl::Seconds(5), kSayAgain = absl::Seconds(30);
constexpr absl::Duration kSlowCheckpoint = absl::Minutes(1);

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

// Says what is waited for when nothing can run, and ends the wait when it takes too long.
void Controller::Watch() {
  const absl::Duration now = env_->Monotonic();
  PostAfter(kWatchInterval, [this, due = now + kWatchInterval] {
    // Time in which this process itself stood still is no wait for others.
    const absl::Duration late = env_->Monotonic() - due;
    if (late > kWatchInterval) stalled_.Discount(late);
    Watch();
  });
  WatchCheckpoint(now);
  CheckDeadlines(now);
  const std::string waiting_for = WaitingFor();
  if (waiting_for.empty() || (closures_.empty() && parked_.empty()) || !life_.failed().ok()) {
    stalled_.Over();
    return;
  }
  const absl::Duration waited = stalled_.Waits(now);
  if (waited >= options_.recovery.cluster_timeout) {
    FailAll(WithDetail(
        absl::UnavailableError(absl::StrCat("nothing could run for ", absl::FormatDuration(waited),
                                            "; waited for ", waiting_for)),
        {ErrorCause::kUnreachable, true, "", 0}));
    return;
  }
  if (stalled_.Say(now, kSayAfter, kSayAgain)) {
    Emit(ClusterEvent::Kind::kWaiting, "",
         absl::StrCat("waiting for ", waiting_for, "; the job fails if that takes more than ",
                      absl::FormatDuration(options_.recovery.cluster_timeout)));
  }
}

void Controller::WatchCheckpoint(absl::Duration now) {
  if (checkpointer_ == nullptr || checkpointer_->age(now) < kSlowCheckpoint) {
    slow_checkpoint_.Over();
  } else if (slow_checkpoint_.Say(now, absl::ZeroDuration(), kSlowCheckpoint)) {
    Emit(ClusterEvent::Kind::kWaiting, "",
         absl::StrCat(checkpointer_->ToString(now), "; training goes on, and no other checkpoint ",
                      "is written meanwhile"));
  }
}

}  // namespace coxswain
