// Which PS holds which shard. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "protos/variable.pb.h"
#include "runtime/base/ids.h"

namespace coxswain {

// Rows of the shard, for placing it. What a hash table will have is not known before: what its
// max_rows allow, or a guess.
int64_t ExpectedRows(const proto::ShardSpec& shard);

class ShardMap {
 public:
  void Add(const proto::ShardSpec& spec) { shards_[spec.id()] = spec; }
  void Remove(ShardId shard) { shards_.erase(shard); }
  bool Has(ShardId shard) const { return shards_.count(shard) > 0; }
  // -1 when there is no such shard.
  int PsOf(ShardId shard) const;
  // Ascending.
  std::vector<ShardId> On(int ps) const;
  const std::map<ShardId, proto::ShardSpec>& shards() const { return shards_; }

  // The shards of `lost` go to those of `there` (not empty), largest first, each to the PS with the
  // fewest bytes then. `rows` has those of hash tables as far as they are known.
  void Spread(const std::set<int>& lost, const std::set<int>& there,
              const std::map<ShardId, int64_t>& rows = {});

 private:
  std::map<ShardId, proto::ShardSpec> shards_;  // spec.ps() is where it is now
};

}  // namespace coxswain
