// What follows when lost shards are there again: what they lack runs again, or is counted as lost.
// There may be a million closures, and pings must not wait for them: this takes turns on the loop.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"

namespace coxswain {
namespace {

// About a millisecond each.
constexpr ClosureId kRerunPerTurn = 2048;
constexpr int64_t kCountedPerTurn = 1 << 14;

}  // namespace

void Controller::BeginAftermath(const Base& base) {
  // The lost shards lack the first steps of what was under way.
  for (auto& [id, pending] : closures_) pending.first_step = 0;
  Aftermath aftermath;
  aftermath.token = restore_token_;
  aftermath.number = base.manifest.number;
  aftermath.steps = base.manifest.steps;
  aftermath.first = base.manifest.low_water;
  if (options_.recovery.on_ps_loss != PsLossPolicy::kAcceptLoss) {
    for (auto& [id, pending] : closures_) {
      if (pending.after > 0) dispatcher_.SetAfter(id, pending.after);
    }
    aftermath.end = log_.entries().empty() ? 0 : log_.entries().rbegin()->first + 1;
    aftermath.rerun_before = dispatcher_.stats().rerun;
    RunAgain(aftermath);
    return;
  }
  std::vector<LostUpdates::Shard> shards;
  for (ShardId shard : lost_shards_) {
    const proto::SavedShard* saved = FindSaved(base.manifest, shard);
    shards.push_back({shard, saved == nullptr ? "" : saved->ledger()});
  }
  lost_updates_.Begin(std::move(shards), aftermath.first, [this](PlanId id, ShardId shard) {
    std::vector<uint32_t> keys;
    const auto plan = plans_.find(id);
    if (plan == plans_.end()) return keys;
    for (const ShardUpdate& update : plan->second.updates) {
      if (update.shard == shard) keys.push_back(update.key);
    }
    return keys;
  });
  CountLost(aftermath);
}

bool Controller::Outdated(const Aftermath& aftermath) const {
  return aftermath.token != restore_token_ || !recovery_.restoring() || ending_ || !failed_.ok();
}

void Controller::CountLost(const Aftermath& aftermath) {
  if (Outdated(aftermath)) return;  // another PS is lost: all of it is counted then
  if (!lost_updates_.Count(log_, kCountedPerTurn)) {
    PostAfter(absl::ZeroDuration(), [this, aftermath] { CountLost(aftermath); });
    return;
  }
  const int64_t lost = lost_updates_.lost();
  lost_updates_.Commit(log_);
  failures_.updates_lost += lost;
  FinishRecovery(aftermath, absl::StrCat(lost_shards_.size(), " shards"),
                 absl::StrCat(lost, " updates are lost"));
}

// All closures at or above `first` run (again) in the order in which they were scheduled; here the
// last ones first, for then the dispatcher can take them bit by bit. Should another PS be lost
// before all are queued, those that are will only be some of what runs again.
void Controller::RunAgain(Aftermath aftermath) {
  if (Outdated(aftermath)) return;
  if (aftermath.end > aftermath.first) {
    const ClosureId begin =
        std::max(aftermath.first, aftermath.end - std::min(aftermath.end, kRerunPerTurn));
    std::vector<Dispatcher::Rerun> again;
    for (auto& [id, entry] : log_.Take(begin, aftermath.end)) {
      again.push_back({id, entry.after});
      PendingClosure pending;
      pending.spec = std::move(entry.spec);
      pending.after = entry.after;
      if (closures_.emplace(id, std::move(pending)).second) ++rerun_open_;
    }
    dispatcher_.RunAgain(again);
    aftermath.end = begin;
  }
  if (aftermath.end > aftermath.first) {
    PostAfter(absl::ZeroDuration(), [this, aftermath] { RunAgain(aftermath); });
    return;
  }
  const bool all = options_.recovery.on_ps_loss == PsLossPolicy::kRollback;
  FinishRecovery(aftermath, all ? "all shards" : absl::StrCat(lost_shards_.size(), " lost shards"),
                 absl::StrCat(dispatcher_.stats().rerun - aftermath.rerun_before,
                              " closures since then run again"));
}

void Controller::FinishRecovery(const Aftermath& aftermath, const std::string& shards,
                                const std::string& price) {
  const std::string from = aftermath.number == 0 ? std::string("the initial values")
                                                 : absl::StrCat("checkpoint ", aftermath.number,
                                                                " (step ", aftermath.steps, ")");
  ps_recovering_ += recovery_.lost();
  if (!recovering_since_) recovering_since_ = recovery_.since();
  lost_shards_.clear();
  recovery_.Finish();
  // Those that came back too late to take part.
  for (int ps : absent_) {
    if (ps_[ps]->up()) DropStale(ps);
  }
  Emit(ClusterEvent::Kind::kRecovered, "",
       absl::StrCat(shards, " went back to ", from, "; ", price));
  ResumeDispatch();
}

}  // namespace coxswain
