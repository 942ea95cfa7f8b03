#include "coordinator/core/row_writes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace coxswain::core {

RowWrites::Way RowWrites::Admit(bool runs_again, bool gathering) {
  if (runs_again) return Way::kHold;
  if (!gathering) return Way::kGo;
  return std::exchange(made_way_, true) ? Way::kHold : Way::kGoAfterAnother;
}

std::vector<RowWrites::Task> RowWrites::Release() { return std::exchange(held_, {}); }

void RowWrites::Sent(ShardId shard, uint64_t covered_by) { written_[shard].sent = covered_by; }

void RowWrites::Done(ShardId shard, uint64_t covered_by, std::optional<uint64_t> next) {
  // Checkpoints may have begun since it was sent.
  if (next) covered_by = std::min(covered_by, *next);
  written_[shard].done = covered_by;
  if (!next || *next <= covered_by) unsaved_ = may_try_ = true;
}

bool RowWrites::Covered(ShardId shard, uint64_t checkpoint) const {
  const auto it = written_.find(shard);
  return it == written_.end() || it->second.sent <= checkpoint;
}

void RowWrites::NumberFrom(uint64_t next) {
  for (auto& [shard, numbers] : written_) {
    numbers.sent = next;
    if (numbers.done) numbers.done = next;
  }
}

void RowWrites::CheckpointFailed() {
  const auto confirmed = [](const auto& w) { return w.second.done.has_value(); };
  unsaved_ = unsaved_ || std::any_of(written_.begin(), written_.end(), confirmed);
  may_try_ = false;
}

void RowWrites::Trim(uint64_t oldest) {
  for (auto it = written_.begin(); it != written_.end();) {
    Numbers& numbers = it->second;
    if (numbers.done && *numbers.done <= oldest) numbers.done.reset();
    it = !numbers.done && numbers.sent <= oldest ? written_.erase(it) : std::next(it);
  }
}

bool RowWrites::TakeTurn() {
  if (!unsaved_ || !may_try_) return false;
  unsaved_ = false;
  return true;
}

std::map<ShardId, uint64_t> RowWrites::safe_from() const {
  std::map<ShardId, uint64_t> safe;
  for (const auto& [shard, numbers] : written_) {
    if (numbers.done) safe[shard] = *numbers.done;
  }
  return safe;
}

}  // namespace coxswain::core
