// Moving shards between PS while training goes on, in steps: no closure begins until none runs
// (draining), a checkpoint is written (saving), the shards that move are restored from it elsewhere
// (moving). PsRecovery has the phase; this class has the shards that move, and when they may move
// again. Does no I/O; time is passed in. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

class ShardMoves {
 public:
  // Within this time all closures must be over and the checkpoint written; otherwise the move is
  // given up.
  static constexpr absl::Duration kMostPause = absl::Seconds(10);

  // Whether shards may move again.
  bool Due(absl::Duration now) const { return now >= not_before_; }
  // These shards will get new PS, and the pause begins. Returns the number of this move: events for
  // other numbers are late.
  uint64_t Begin(std::map<ShardId, int> to, absl::Duration now);
  uint64_t number() const { return number_; }
  bool IsCurrent(uint64_t number) const { return number == number_; }
  const std::map<ShardId, int>& to() const { return to_; }

  // These shards move now; `from` has their old PS.
  void Move(std::map<ShardId, int> from) { from_ = std::move(from); }
  const std::map<ShardId, int>& from() const { return from_; }
  // The shards have moved. Returns how long it took so far.
  absl::Duration Moved(absl::Duration now);
  // The move failed. No shards move in this session any more.
  void Failed() { not_before_ = absl::InfiniteDuration(); }
  // A closure can run again: the pause is over. Pauses take at most `share` of the time.
  void EndPause(double share, absl::Duration now);
  // A recovery takes over: no pause is counted.
  void Abort() { since_ = std::nullopt; }

  int64_t shards() const { return shards_; }   // number of shards moved
  double seconds() const { return seconds_; }  // sum of all pauses

 private:
  uint64_t number_ = 0;
  std::map<ShardId, int> to_, from_;
  std::optional<absl::Duration> since_;
  absl::Duration not_before_;
  int64_t shards_ = 0;
  double seconds_ = 0;
};

}  // namespace coxswain::core
