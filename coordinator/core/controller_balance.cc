// The controller moves shards between parameter servers while training goes on. When a checkpoint
// is due and the PS are used unevenly, no closure is begun until none runs; then the checkpoint is
// written, and the shards that move are restored from it elsewhere, as after the loss of a PS.
// Nothing that they have is lost by that, so nothing runs again. A loss meanwhile leads to an
// ordinary recovery, from that checkpoint or an older one, which finds the shards where they are to
// be.

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"

namespace coxswain {
namespace {

// Until then nothing may run any more and the checkpoint must be written; else shards stay.
constexpr absl::Duration kMostPause = absl::Seconds(10);

}  // namespace

void Controller::BeginCheckpoint() {
  if (Moving()) return;
  moves_.to = WantedMoves();
  if (moves_.to.empty()) {
    Checkpoint(nullptr);
    return;
  }
  moves_.phase = MovePhase::kDraining;
  moves_.since = env_->Monotonic();
  PostAfter(kMostPause, [this, number = ++moves_.number] {
    const bool early = moves_.phase == MovePhase::kDraining || moves_.phase == MovePhase::kSaving;
    if (number != moves_.number || !early) return;
    const bool draining = moves_.phase == MovePhase::kDraining;
    GiveUpMoves(absl::StrCat(draining ? "closures ran" : "the checkpoint was written",
                             " for more than ", absl::FormatDuration(kMostPause)));
    if (draining && recovery_.running()) Checkpoint(nullptr);
  });
  CheckDrained();
}

// As the two newest checkpoints have counted; what came before them where that is little.
std::map<ShardId, ShardLoad> Controller::MeasuredLoads() const {
  std::map<ShardId, ShardLoad> all, since;
  double rows = 0;
  for (const proto::SavedShard& saved : bases_.back().manifest.shards) {
    all[saved.shard().id()] = LoadOf(saved);
  }
  if (bases_.size() < 2) return all;
  std::map<ShardId, const proto::SavedShard*> before;
  for (const proto::SavedShard& saved : bases_.front().manifest.shards) {
    before[saved.shard().id()] = &saved;
  }
  for (const proto::SavedShard& saved : bases_.back().manifest.shards) {
    const auto it = before.find(saved.shard().id());
    const ShardLoad load = it == before.end() ? LoadOf(saved) : LoadSince(saved, *it->second);
    rows += load.rows;
    since[saved.shard().id()] = load;
  }
  return rows < checkpointer_->options().balance.min_rows ? all : since;
}

std::map<ShardId, int> Controller::WantedMoves() const {
  const CheckpointOptions& options = checkpointer_->options();
  if (!options.rebalance || bases_.empty() || !making_.empty() || !recovery_.running()) return {};
  if (env_->Monotonic() < moves_.not_before) return {};
  const std::set<int> there = PsThere();
  const std::vector<PlacedShard> shards = shards_.Placed(MeasuredLoads());
  for (const PlacedShard& shard : shards) {
    if (there.count(shard.ps) == 0) return {};
  }
  return options.choose_moves ? options.choose_moves(there, shards)
                              : ChooseMoves(there, shards, options.balance);
}

void Controller::CheckDrained() {
  if (moves_.phase != MovePhase::kDraining || closures_.running() > 0) return;
  // What an attempt that took too long applies after the cut would go with the move: if it ends
  // well now, it does not count, and its closure runs again.
  closures_.ForgetOverdueAttempts();
  moves_.phase = MovePhase::kSaving;
  Checkpoint([this, number = moves_.number](const absl::StatusOr<Manifest>& manifest) {
    if (number != moves_.number || moves_.phase != MovePhase::kSaving) return;
    if (manifest.ok()) {
      MoveShards(*manifest);
    } else {
      GiveUpMoves(std::string(manifest.status().message()));
    }
  });
}

void Controller::MoveShards(const Manifest& manifest) {
  const std::set<int> there = PsThere();
  std::set<ShardId> saved;
  for (const proto::SavedShard& shard : manifest.shards) saved.insert(shard.shard().id());
  moves_.from.clear();
  for (const auto& [shard, ps] : moves_.to) {
    const int from = shards_.PsOf(shard);
    if (from < 0 || from == ps || there.count(ps) == 0 || saved.count(shard) == 0) continue;
    moves_.from[shard] = from;
  }
  if (moves_.from.empty() || !failed_.ok() || !recovery_.running() || closures_.running() > 0 ||
      bases_.back().manifest.number != manifest.number) {
    GiveUpMoves("what was to move, or where to, is not there any more");
    return;
  }
  moves_.phase = MovePhase::kRestoring;
  recovery_.BeginMoves(env_->Monotonic());
  for (int ps : there) absent_.erase(ps);
  for (const auto& [shard, from] : moves_.from) {
    shards_.Move(shard, moves_.to.at(shard));
    lost_shards_.insert(shard);
  }
  RestoreShards(bases_.back());
}

void Controller::FinishMoves() {
  moves_.phase = MovePhase::kNone;
  moves_.shards += static_cast<int64_t>(moves_.from.size());
  lost_shards_.clear();
  recovery_.Finish();
  Emit(ClusterEvent::Kind::kShardsMoved, "",
       absl::StrCat("moved ", moves_.from.size(), " shards to even out the parameter servers, in ",
                    absl::FormatDuration(
                        absl::Floor(env_->Monotonic() - *moves_.since, absl::Milliseconds(1)))));
  ResumeDispatch();
}

void Controller::UndoMoves(const absl::Status& why) {
  moves_.phase = MovePhase::kNone;
  moves_.not_before = absl::InfiniteDuration();
  for (const auto& [shard, from] : moves_.from) shards_.Move(shard, from);
  LogWarning("shards stay where they were: ", why.message());
}

void Controller::GiveUpMoves(const std::string& why) {
  moves_.phase = MovePhase::kNone;
  LogInfo("shards do not move: ", why);
  EndPause();
  ResumeDispatch();
}

void Controller::AbortMoves() {
  moves_.phase = MovePhase::kNone;
  moves_.since = std::nullopt;
}

void Controller::EndPause() {
  if (!moves_.since) return;
  const absl::Duration now = env_->Monotonic(), pause = now - *moves_.since;
  moves_.since = std::nullopt;
  moves_.seconds += absl::ToDoubleSeconds(pause);
  const double share = checkpointer_ == nullptr ? 1 : checkpointer_->options().balance.pause_share;
  moves_.not_before = std::max(moves_.not_before, now + pause / share);
}

}  // namespace coxswain
