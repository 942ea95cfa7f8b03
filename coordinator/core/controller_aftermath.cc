// The last stage of a recovery, when lost shards are restored: closures that they lack run again,
// or are counted as lost. There may be a million closures, and pings must not wait for them, so the
// work is done in slices on the loop.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"

namespace coxswain::core {
namespace {

// About a millisecond each.
constexpr uint64_t kRerunPerTurn = 2048;
constexpr int64_t kCountedPerTurn = 1 << 14;

}  // namespace

void Controller::BeginAftermath(uint64_t restore, const RestorePoint& point) {
  // The lost shards lack the first steps of closures that were under way.
  const bool runs_again = options_.recovery.on_ps_loss != PsLossPolicy::kAcceptLoss;
  closures_.BeginAnew(/*in_order=*/runs_again);
  Aftermath aftermath;
  aftermath.restore = restore;
  aftermath.number = point.manifest.number;
  aftermath.steps = point.steps;
  aftermath.first = point.manifest.low_water;
  if (runs_again) {
    const auto& logged = closures_.log().entries();
    aftermath.end = logged.empty() ? 0 : logged.rbegin()->first + 1;
    aftermath.rerun_before = closures_.stats().rerun;
    RunAgain(aftermath);
    return;
  }
  std::vector<LostUpdates::Shard> shards;
  for (ShardId shard : layout_.going_back()) {
    const proto::SavedShard* saved = FindSaved(point.manifest, shard);
    shards.push_back({shard, saved == nullptr ? "" : saved->ledger()});
  }
  closures_.BeginCountingLost(
      std::move(shards), aftermath.first,
      [this](PlanId plan, ShardId shard) { return plans_.KeysOf(plan, shard); });
  CountLost(aftermath);
}

bool Controller::Outdated(const Aftermath& aftermath) const {
  return !layout_.IsCurrent(aftermath.restore) || !recovery_.restoring() || life_.ending() ||
         !life_.failed().ok();
}

// Where a PS is lost it is not known yet, but to be expected.
bool Controller::UpdatesAreMissing() const {
  if (closures_.rerun_open() > 0) return true;
  if (options_.recovery.on_ps_loss == PsLossPolicy::kAcceptLoss) return false;
  return !recovery_.running() && !recovery_.moving() && HasUpdatesToLose();
}

void Controller::AwaitRerun(std::function<void(absl::StatusOr<Generation>)> done) {
  loop_.Post([this, done = std::move(done)]() mutable {
    if (!life_.failed().ok()) {
      done(life_.failed());
    } else if (UpdatesAreMissing()) {
      parked_.push_back([this, done = std::move(done)]() mutable { AwaitRerun(std::move(done)); });
    } else {
      done(layout_.generation());
    }
  });
}

void Controller::CountLost(const Aftermath& aftermath) {
  if (Outdated(aftermath)) return;  // another PS is lost: counting starts again later
  const std::optional<int64_t> lost = closures_.CountLost(kCountedPerTurn);
  if (!lost) {
    loop_.PostAfter(absl::ZeroDuration(), [this, aftermath] { CountLost(aftermath); });
    return;
  }
  failures_.stats().updates_lost += *lost;
  FinishRecovery(aftermath, absl::StrCat(layout_.going_back().size(), " shards"),
                 absl::StrCat(closures_.log().Covers(aftermath.first) ? "" : "at least ", *lost,
                              " updates are lost"));
}

// All closures at or above `first` run (again) in the order in which they were scheduled. They are
// queued from the last one down, so that the dispatcher can take them in slices. If another PS is
// lost before all are queued, the queued ones are simply part of those that run again.
void Controller::RunAgain(Aftermath aftermath) {
  if (Outdated(aftermath)) return;
  if (aftermath.end > aftermath.first) {
    const ClosureId begin = std::max<ClosureId>(
        aftermath.first, aftermath.end - std::min<ClosureId>(aftermath.end, kRerunPerTurn));
    closures_.RunAgain(begin, aftermath.end);
    aftermath.end = begin;
  }
  if (aftermath.end > aftermath.first) {
    loop_.PostAfter(absl::ZeroDuration(), [this, aftermath] { RunAgain(aftermath); });
    return;
  }
  FinishRecovery(
      aftermath,
      AllGoBack() ? "all shards" : absl::StrCat(layout_.going_back().size(), " lost shards"),
      absl::StrCat(closures_.stats().rerun - aftermath.rerun_before,
                   " closures since then run again"));
}

void Controller::FinishRecovery(const Aftermath& aftermath, const std::string& shards,
                                const std::string& price) {
  const std::string from = aftermath.number == 0 ? std::string("the initial values")
                                                 : absl::StrCat("checkpoint ", aftermath.number,
                                                                " (step ", aftermath.steps, ")");
  failures_.ShardsBack(recovery_.lost(), recovery_.since());
  layout_.Restored();
  recovery_.Finish();
  // PS that came back too late to take part in the recovery.
  for (int ps : layout_.absent()) {
    if (tasks_.ps()[ps]->up()) DropStale(ps);
  }
  Emit(ClusterEvent::Kind::kRecovered, "",
       absl::StrCat(shards, " went back to ", from, "; ", price));
  ResumeDispatch();
}

}  // namespace coxswain::core
