// Which PS holds which shard. Owned by the coordinator's loop.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "coordinator/core/placement.h"
#include "protos/variable.pb.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

class ShardMap {
 public:
  void Add(const proto::ShardSpec& spec) { shards_[spec.id()] = spec; }
  void Remove(ShardId shard) { shards_.erase(shard); }
  bool Has(ShardId shard) const { return shards_.count(shard) > 0; }
  // -1 when the shard does not exist.
  int PsOf(ShardId shard) const;
  // The shards on a PS, ascending.
  std::vector<ShardId> On(int ps) const;
  const std::map<ShardId, proto::ShardSpec>& shards() const { return shards_; }

  // Moves these shards to PS in `there` (not empty), see PlaceShards. `loads` has the loads of
  // shards as far as they were measured.
  void Spread(const std::set<ShardId>& homeless, const std::set<int>& there,
              const std::map<ShardId, ShardLoad>& loads = {});
  void Move(ShardId shard, int ps) { shards_.at(shard).set_ps(ps); }
  // All shards, for placement.
  std::vector<PlacedShard> Placed(const std::map<ShardId, ShardLoad>& loads) const;

 private:
  std::map<ShardId, proto::ShardSpec> shards_;  // spec.ps() is where it is now
};

}  // namespace coxswain::core
