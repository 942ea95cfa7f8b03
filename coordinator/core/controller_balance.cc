// The controller moves shards between parameter servers while training goes on. When a checkpoint
// is due and the load of the PS is uneven, no closure is begun until all have ended; then the
// checkpoint is written, and the moving shards are restored from it on other PS, as after the loss
// of a PS. They lose no updates, so no closure runs again. The loss of a PS meanwhile leads to an
// ordinary recovery, from that checkpoint or an older one, with the shards already assigned to
// their new PS.

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"

namespace coxswain::core {
void Controller::BeginCheckpoint() {
  if (recovery_.moving()) return;
  checkpoints_.WillBegin(closures_.steps());
  std::map<ShardId, int> moves = WantedMoves();
  if (moves.empty()) {
    Checkpoint(nullptr);
    return;
  }
  recovery_.Drain();
  loop_.PostAfter(
      ShardMoves::kMostPause, [this, number = moves_.Begin(std::move(moves), env_->Monotonic())] {
        const bool draining = recovery_.phase() == Phase::kDraining;
        if (!moves_.IsCurrent(number)) return;
        if (!draining && recovery_.phase() != Phase::kSaving) return;
        GiveUpMoves(absl::StrCat(draining ? "closures ran" : "the checkpoint was written",
                                 " for more than ", absl::FormatDuration(ShardMoves::kMostPause)));
        if (draining && recovery_.running()) Checkpoint(nullptr);
      });
  CheckDrained();
}

std::map<ShardId, int> Controller::WantedMoves() const {
  const CheckpointOptions& options = checkpoints_.writer()->options();
  // What is held of a synchronous step does not move.
  if (closures_.steps_open().any()) return {};
  if (!options.rebalance || checkpoints_.points().empty() || layout_.creating() ||
      !recovery_.running())
    return {};
  if (!moves_.Due(env_->Monotonic())) return {};
  const std::set<int> there = tasks_.PsThere();
  const std::vector<PlacedShard> shards =
      layout_.shards().Placed(checkpoints_.points().Loads(options.balance.min_rows));
  for (const PlacedShard& shard : shards) {
    if (there.count(shard.ps) == 0) return {};
  }
  if (!options.choose_moves) return ChooseMoves(there, shards, options.balance);
  const std::map<uint32_t, int> chosen = options.choose_moves(there, shards);
  return {chosen.begin(), chosen.end()};
}

void Controller::CheckDrained() {
  if (recovery_.phase() != Phase::kDraining || closures_.running() > 0) return;
  // Updates that an overdue attempt applies after the cut would be lost in the move. So it no
  // longer counts if it ends well, and its closure runs again.
  closures_.ForgetOverdueAttempts();
  recovery_.Save();
  loop_.Post([this, number = moves_.number()] {
    CheckpointNow([this, number](const absl::StatusOr<checkpoint::Manifest>& manifest) {
      if (!moves_.IsCurrent(number) || recovery_.phase() != Phase::kSaving) return;
      if (manifest.ok()) {
        MoveShards(*manifest);
      } else {
        GiveUpMoves(std::string(manifest.status().message()));
      }
    });
  });
}

void Controller::MoveShards(const checkpoint::Manifest& manifest) {
  const std::set<int> there = tasks_.PsThere();
  moves_.Move(layout_.Moves(moves_.to(), there, manifest));
  if (moves_.from().empty() || !life_.failed().ok() || closures_.running() > 0 ||
      checkpoints_.points().newest().manifest.number != manifest.number) {
    GiveUpMoves("what was to move, or where to, is not there any more");
    return;
  }
  recovery_.Move(env_->Monotonic());
  layout_.BeginMoves(moves_.to(), moves_.from(), there);
  RestoreShards(checkpoints_.points().newest());
}

void Controller::FinishMoves() {
  const absl::Duration took = moves_.Moved(env_->Monotonic());
  layout_.Restored();
  recovery_.Finish();
  Emit(
      ClusterEvent::Kind::kShardsMoved, "",
      absl::StrCat("moved ", moves_.from().size(), " shards to even out the parameter servers, in ",
                   absl::FormatDuration(absl::Floor(took, absl::Milliseconds(1)))));
  ResumeDispatch();
}

void Controller::UndoMoves(const absl::Status& why) {
  moves_.Failed();
  layout_.UndoMoves(moves_.from());
  LogWarning("shards stay where they were: ", why.message());
}

void Controller::GiveUpMoves(const std::string& why) {
  recovery_.Stay();
  LogInfo("shards do not move: ", why);
  EndPause();
  ResumeDispatch();
}

void Controller::EndPause() {
  const Checkpointer* const writer = checkpoints_.writer();
  const double share = writer == nullptr ? 1 : writer->options().balance.pause_share;
  moves_.EndPause(share, env_->Monotonic());
}

}  // namespace coxswain::core
