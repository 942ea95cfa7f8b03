// The checkpoints of a job. Who writes them and when (Checkpointer, CheckpointSchedule), what lost
// shards can go back to (RestorePoints), what the next one builds on (DeltaBases) and what programs
// wrote by hand (RowWrites) are parts of their own; here is what each has to hear of the others.
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

#include "absl/status/status.h"
#include "coordinator/core/checkpoint_schedule.h"
#include "coordinator/core/checkpointer.h"
#include "coordinator/core/delta_bases.h"
#include "coordinator/core/restore_points.h"
#include "coordinator/core/row_writes.h"

namespace coxswain::core {

class Checkpoints {
 public:
  // The job goes on from this one, after this number of training steps.
  void Resume(checkpoint::Manifest manifest, std::string path, int64_t steps);
  // From now on `writer` writes them, the first one with number `next`. Returns the number of the
  // timer by which they come.
  uint64_t Start(std::shared_ptr<Checkpointer> writer, uint64_t next);
  // Null: none are written.
  Checkpointer* writer() const { return writer_.get(); }
  // Nothing is heard any more of the one under way.
  void Stop() { writer_ = nullptr; }
  // The one under way, if one is, fails with this.
  void Abort(const absl::Status& why) {
    if (writer_ != nullptr) writer_->Abort(why);
  }

  // Whether one is due after this number of training steps: when the timer of this number fires;
  // when a closure is over; for what programs wrote, of which it is told once.
  bool IsCurrent(uint64_t timer) const { return writer_ != nullptr && schedule_.IsCurrent(timer); }
  bool DueByTime(int64_t steps) const;
  bool DueBySteps(int64_t steps) const;
  bool DueByWrites() { return writer_ != nullptr && writes_.TakeTurn(); }

  void Begin(int64_t steps, Checkpointer::DoneFn done);
  // One has ended so. False: nobody has to hear of it, for it failed or was known.
  bool Ended(const Checkpointer::Outcome& outcome);
  // And those who asked for it were told.
  void Over() { writes_.CheckpointOver(); }

  const RestorePoints& points() const { return points_; }
  void MarkBad(uint64_t number) { points_.MarkBad(number); }
  // The checkpoints from which on what was written by hand is safe, by shard.
  std::map<ShardId, uint64_t> safe_from() const { return writes_.safe_from(); }
  // These shards went back to checkpoint `number`; 0: to their initial values.
  void WentBack(const std::set<ShardId>& shards, uint64_t number) {
    deltas_.WentBack(shards, number);
  }
  // What the next one builds on. Null: all of the shard is to be written. It lasts until the next
  // call of another method.
  const proto::SavedShard* BaseOf(ShardId shard) const;

  // A program wants to write rows. `runs_again`: closures do, which come before. False: the write
  // is to wait (Hold).
  bool MakeWay(bool runs_again);
  void Hold(RowWrites::Task write) { writes_.Hold(std::move(write)); }
  // Those that may try again.
  std::vector<RowWrites::Task> Release() { return writes_.Release(); }
  // It was sent to the shard; returns the number of the first checkpoint that will have it.
  uint64_t WriteSent(ShardId shard);
  // It is there.
  void WriteDone(ShardId shard, uint64_t covered_by);

 private:
  std::shared_ptr<Checkpointer> writer_;
  CheckpointSchedule schedule_;
  RestorePoints points_;
  DeltaBases deltas_{1};
  RowWrites writes_;
};

}  // namespace coxswain::core
