#include "coordinator/core/shard_moves.h"

#include <algorithm>
#include <utility>

namespace coxswain::core {

uint64_t ShardMoves::Begin(std::map<ShardId, int> to, absl::Duration now) {
  to_ = std::move(to);
  from_.clear();
  since_ = now;
  return ++number_;
}

absl::Duration ShardMoves::Moved(absl::Duration now) {
  shards_ += static_cast<int64_t>(from_.size());
  return since_ ? now - *since_ : absl::ZeroDuration();
}

void ShardMoves::EndPause(double share, absl::Duration now) {
  if (!since_) return;
  const absl::Duration pause = now - *std::exchange(since_, std::nullopt);
  seconds_ += absl::ToDoubleSeconds(pause);
  not_before_ = std::max(not_before_, now + pause / share);
}

}  // namespace coxswain::core
