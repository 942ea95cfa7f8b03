#include "coordinator/core/shard_map.h"

namespace coxswain::core {
int ShardMap::PsOf(ShardId shard) const {
  const auto it = shards_.find(shard);
  return it == shards_.end() ? -1 : it->second.ps();
}

std::vector<ShardId> ShardMap::On(int ps) const {
  std::vector<ShardId> ids;
  for (const auto& [id, spec] : shards_) {
    if (spec.ps() == ps) ids.push_back(id);
  }
  return ids;
}

std::vector<PlacedShard> ShardMap::Placed(const std::map<ShardId, ShardLoad>& loads) const {
  std::vector<PlacedShard> placed;
  for (const auto& [id, spec] : shards_) {
    const auto known = loads.find(id);
    placed.push_back({id, known == loads.end() ? LoadOf(spec) : known->second, spec.ps()});
  }
  return placed;
}

void ShardMap::Spread(const std::set<ShardId>& homeless, const std::set<int>& there,
                      const std::map<ShardId, ShardLoad>& loads) {
  std::vector<PlacedShard> placed;
  for (PlacedShard shard : Placed(loads)) {
    const bool moves = homeless.count(shard.id) > 0;
    if (moves) shard.ps = -1;
    if (moves || there.count(shard.ps) > 0) placed.push_back(shard);
  }
  PlaceShards(there, &placed);
  for (const PlacedShard& shard : placed) Move(shard.id, shard.ps);
}

}  // namespace coxswain::core
