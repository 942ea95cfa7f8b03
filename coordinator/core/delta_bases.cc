#include "coordinator/core/delta_bases.h"

#include <utility>

namespace coxswain {

void DeltaBases::Add(const Manifest& manifest, const std::string& path) {
  for (const proto::SavedShard& shard : manifest.shards) {
    const ShardId id = shard.shard().id();
    if (const auto written = written_.find(id); written != written_.end()) {
      if (manifest.number < written->second) continue;
      written_.erase(written);
    }
    Saved saved{manifest.number, WithPaths(shard, path)};
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

void DeltaBases::Written(ShardId shard, uint64_t number) {
  saved_.erase(shard);
  written_[shard] = number;
}

const proto::SavedShard* DeltaBases::Find(ShardId shard) const {
  const auto found = saved_.find(shard);
  if (found == saved_.end() || found->second.size() < distance_) return nullptr;
  return &found->second.front().shard;
}

}  // namespace coxswain
