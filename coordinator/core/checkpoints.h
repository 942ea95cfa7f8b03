// The checkpoints of a job. Separate classes write them (Checkpointer), schedule them
// (CheckpointSchedule), keep track of what lost shards can go back to (RestorePoints), of what the
// next one builds on (DeltaBases) and of rows that programs wrote directly (RowWrites). This class
// coordinates them.
//
// Thread model: the coordinator's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/checkpoint_schedule.h"
#include "coordinator/core/checkpointer.h"
#include "coordinator/core/delta_bases.h"
#include "coordinator/core/restore_points.h"
#include "coordinator/core/row_writes.h"

namespace coxswain::core {

class Checkpoints {
 public:
  // The job goes on from this checkpoint, after this number of training steps.
  void Resume(checkpoint::Manifest manifest, std::string path, int64_t steps);
  // `writer` writes checkpoints once it has found the number of the first one; `started` gets the
  // number of their timer. Called once, and again after an error. Errors: those of FindNumber; that
  // of GiveUpStart.
  using StartedFn = std::function<void(absl::StatusOr<uint64_t>)>;
  void Start(std::shared_ptr<Checkpointer> writer, StartedFn started);
  // From now on `writer` writes checkpoints, the first one with number `next`. Returns the number
  // of their timer.
  uint64_t StartAt(std::shared_ptr<Checkpointer> writer, uint64_t next);
  // The start under way, if there is one, fails with `why`.
  void GiveUpStart(const absl::Status& why);
  // Null: no checkpoints are written.
  Checkpointer* writer() const { return writer_.get(); }
  // Of those that are written, or will be once the number is found; null: none are.
  const CheckpointOptions* options() const;
  // Stops writing; the result of the current checkpoint is ignored.
  void Stop() {
    GiveUpStart(absl::CancelledError("the coordinator ends"));
    writer_ = nullptr;
  }
  // The current checkpoint, if there is one, fails with `why`.
  void Abort(const absl::Status& why) {
    if (writer_ != nullptr) writer_->Abort(why);
  }

  // Whether a checkpoint is due after this number of training steps: when the timer of this number
  // fires; when a closure is over; for rows that programs wrote, which is reported once.
  bool IsCurrent(uint64_t timer) const { return writer_ != nullptr && schedule_.IsCurrent(timer); }
  bool DueByTime(int64_t steps) const;
  bool DueBySteps(int64_t steps) const;
  bool DueByWrites() { return writer_ != nullptr && writes_.TakeTurn(); }

  // One that is due will begin soon, after this number of steps: no other is due meanwhile.
  void WillBegin(int64_t steps) { schedule_.Begun(steps); }
  // It will not.
  void WillNotBegin() { schedule_.Ended(/*written=*/false); }
  // A request that comes while shards are created.
  void Postpone(std::function<void()> request) { postponed_.push_back(std::move(request)); }
  std::vector<std::function<void()>> TakePostponed() { return std::exchange(postponed_, {}); }
  void Begin(int64_t steps, Checkpointer::DoneFn done);
  // A checkpoint has ended. False: there is nothing to do, because it failed or was known.
  bool Ended(const Checkpointer::Outcome& outcome);
  // Called after those who asked for the checkpoint were told.
  void Over() { writes_.CheckpointOver(); }

  const RestorePoints& points() const { return points_; }
  void MarkBad(uint64_t number) { points_.MarkBad(number); }
  // By shard: the first checkpoint that has the rows that programs wrote.
  std::map<ShardId, uint64_t> safe_from() const { return writes_.safe_from(); }
  // These shards went back to checkpoint `number`; 0: to their initial values.
  void WentBack(const std::set<ShardId>& shards, uint64_t number);
  // A new shard begins with its value in checkpoint `number`.
  void Created(ShardId shard, uint64_t number) { deltas_.WentBack({shard}, number); }
  // What the next one does not go on from.
  const checkpoint::Abandoned& abandoned() const { return abandoned_; }
  // The base of the shard's next checkpoint. Null: the whole shard must be written. Valid until the
  // next call of another method.
  const proto::SavedShard* BaseOf(ShardId shard) const;

  // A program wants to write rows. `runs_again`: whether closures run again, which must come first.
  // False: the write must wait (Hold).
  bool MakeWay(bool runs_again);
  void Hold(RowWrites::Task write) { writes_.Hold(std::move(write)); }
  // Returns the held writes, which may try again.
  std::vector<RowWrites::Task> Release() { return writes_.Release(); }
  // A write was sent to the shard; returns the number of the first checkpoint that will have it.
  uint64_t WriteSent(ShardId shard);
  // The write was confirmed.
  void WriteDone(ShardId shard, uint64_t covered_by);

 private:
  struct Starting {
    std::shared_ptr<Checkpointer> writer;  // null: nothing starts
    StartedFn started;
  };
  Starting starting_;
  std::shared_ptr<Checkpointer> writer_;
  CheckpointSchedule schedule_;
  RestorePoints points_;
  DeltaBases deltas_{1};
  RowWrites writes_;
  checkpoint::Abandoned abandoned_;
  std::vector<std::function<void()>> postponed_;
};

}  // namespace coxswain::core
