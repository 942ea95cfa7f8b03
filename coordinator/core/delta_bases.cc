#include "coordinator/core/delta_bases.h"

#include <utility>

namespace coxswain::core {

void DeltaBases::Add(const checkpoint::Manifest& manifest, const std::string& path,
                     const RowWrites& writes) {
  for (const proto::SavedShard& shard : manifest.shards) {
    const ShardId id = shard.shard().id();
    if (!writes.Covered(id, manifest.number)) continue;
    Saved saved{manifest.number, checkpoint::WithPaths(shard, path)};
    saved.shard.clear_ledger();  // it may be long, and is not what the shard has by then
    std::deque<Saved>& all = saved_[id];
    all.push_back(std::move(saved));
    if (all.size() > distance_) all.pop_front();
  }
}

void DeltaBases::WentBack(const std::set<ShardId>& shards, uint64_t number) {
  for (const ShardId id : shards) {
    std::deque<Saved>& all = saved_[id];
    while (!all.empty() && all.back().number > number) all.pop_back();
  }
}

const proto::SavedShard* DeltaBases::Find(ShardId shard) const {
  const auto found = saved_.find(shard);
  if (found == saved_.end() || found->second.size() < distance_) return nullptr;
  return &found->second.front().shard;
}

}  // namespace coxswain::core
