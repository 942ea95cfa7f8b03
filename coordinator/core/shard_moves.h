// Moving shards between PS while training goes on, in steps: no closure begins until none runs
// (draining), a checkpoint is written (saving), the shards that move are restored from it elsewhere
// (moving). Which phase it is, PsRecovery says; here is what moves, and when next. Pure, time is
// passed in. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

class ShardMoves {
 public:
  // Until then nothing may run any more and the checkpoint must be written; else shards stay.
  static constexpr absl::Duration kMostPause = absl::Seconds(10);

  // Whether shards may move again.
  bool Due(absl::Duration now) const { return now >= not_before_; }
  // These are to get new PS, and the pause begins. Returns the number of these moves: what comes
  // for another number is late.
  uint64_t Begin(std::map<ShardId, int> to, absl::Duration now);
  uint64_t number() const { return number_; }
  bool IsCurrent(uint64_t number) const { return number == number_; }
  const std::map<ShardId, int>& to() const { return to_; }

  // These do move; with the PS that they come from.
  void Move(std::map<ShardId, int> from) { from_ = std::move(from); }
  const std::map<ShardId, int>& from() const { return from_; }
  // They have. Returns how long it took so far.
  absl::Duration Moved(absl::Duration now);
  // Where they were to be they cannot be. No shard moves in this session any more.
  void Failed() { not_before_ = absl::InfiniteDuration(); }
  // A closure can run again: the pause is over. Pauses take at most `share` of the time.
  void EndPause(double share, absl::Duration now);
  // A recovery takes over: no pause is counted.
  void Abort() { since_ = std::nullopt; }

  int64_t shards() const { return shards_; }   // all that moved
  double seconds() const { return seconds_; }  // all pauses

 private:
  uint64_t number_ = 0;
  std::map<ShardId, int> to_, from_;
  std::optional<absl::Duration> since_;
  absl::Duration not_before_;
  int64_t shards_ = 0;
  double seconds_ = 0;
};

}  // namespace coxswain::core
