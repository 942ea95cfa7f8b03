#include "coordinator/core/lost_updates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::core {

void LostUpdates::Begin(std::vector<Shard> shards, ClosureId low_water, KeysOf keys_of) {
  shards_ = std::move(shards);
  low_water_ = low_water;
  keys_of_ = std::move(keys_of);
  ledgers_.clear();
  shard_ = 0;
  lost_ = 0;
  if (!shards_.empty()) BeginShard();
}

void LostUpdates::BeginShard() {
  const Shard& shard = shards_[shard_];
  // An invalid ledger is an error of the PS, and counts as empty.
  auto ledger = checkpoint::Ledger::Parse(shard.ledger.empty() ? "0" : shard.ledger);
  ledgers_[shard.id] = std::make_shared<const checkpoint::Ledger>(
      ledger.ok() ? *std::move(ledger) : checkpoint::Ledger());
  keys_.clear();
  next_ = low_water_;
}

bool LostUpdates::Count(const ClosureLog& log, int64_t most) {
  for (int64_t looked = 0; shard_ < shards_.size(); ++shard_) {
    if (shard_ >= ledgers_.size()) BeginShard();
    const ShardId shard = shards_[shard_].id;
    const checkpoint::Ledger& ledger = *ledgers_.at(shard);
    const std::vector<Loss>& before = losses_[shard];
    for (auto it = log.entries().lower_bound(next_); it != log.entries().end(); ++it) {
      const ClosureId id = it->first;
      if (looked >= most) {
        next_ = id;
        return false;
      }
      const ClosureLog::Entry& entry = it->second;
      auto keys = keys_.find(entry.spec.plan);
      if (keys == keys_.end()) {
        keys = keys_.emplace(entry.spec.plan, keys_of_(entry.spec.plan, shard)).first;
      }
      looked += 1 + static_cast<int64_t>(keys->second.size()) * entry.spec.steps;
      for (uint32_t key : keys->second) {
        for (uint32_t step = 0; step < entry.spec.steps; ++step) {
          const bool lost_before = std::any_of(before.begin(), before.end(), [&](const Loss& loss) {
            return loss.Lost(id, entry.order, step, key);
          });
          if (!lost_before && !ledger.Contains(id, step, key)) ++lost_;
        }
      }
    }
  }
  return true;
}

void LostUpdates::Commit(const ClosureLog& log) {
  const ClosureId last = log.entries().empty() ? ClosureId(0) : log.entries().rbegin()->first;
  for (auto& [shard, ledger] : ledgers_) {
    losses_[shard].push_back({std::move(ledger), low_water_, last, log.next_order()});
  }
  Begin({}, 0, nullptr);
}

void LostUpdates::Trim(ClosureId first) {
  for (auto it = losses_.begin(); it != losses_.end();) {
    std::vector<Loss>& losses = it->second;
    losses.erase(std::remove_if(losses.begin(), losses.end(),
                                [&](const Loss& loss) { return loss.last < first; }),
                 losses.end());
    it = losses.empty() ? losses_.erase(it) : std::next(it);
  }
}

}  // namespace coxswain::core
