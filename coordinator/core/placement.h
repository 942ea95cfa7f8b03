// Which PS holds which shard: pure functions of bytes and of measured access. Both are to be even,
// and what counts is each one's share of its sum; many shards per PS leave room for it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "coxswain/checkpoint.h"
#include "protos/control.pb.h"
#include "protos/variable.pb.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

// Rows of the shard, for placing it. What a hash table will have is not known before: what its
// max_rows allow, or a guess.
int64_t ExpectedRows(const proto::ShardSpec& shard);

struct ShardLoad {
  double bytes = 0;   // of its values; optimizer slots matter less than evenness
  double access = 0;  // bytes of values that were read and updated, over some time; 0: not known
  double rows = 0;    // that were read and updated meanwhile
};
// Before training.
ShardLoad LoadOf(const proto::ShardSpec& shard);
// As a checkpoint has counted since the variable was made ...
ShardLoad LoadOf(const proto::SavedShard& saved);
// ... or since an earlier checkpoint. Counts that went back, after a recovery, count from nothing.
ShardLoad LoadSince(const proto::SavedShard& saved, const proto::SavedShard& earlier);

struct PlacedShard {
  ShardId id = 0;
  ShardLoad load;
  int ps = -1;  // none yet
};

// Gives each shard that is on none of the PS `there` (not empty) one of them, the largest first.
// Ties go by the shards' order and by the lower PS. O(shards x PS).
void PlaceShards(const std::set<int>& there, std::vector<PlacedShard>* shards);

// The shards that should move, with their new PS, so that access and bytes become even; empty: all
// is well, or little would be won. Each shard must be on one of `there`.
std::map<ShardId, int> ChooseMoves(const std::set<int>& there,
                                   const std::vector<PlacedShard>& shards,
                                   const BalanceRules& rules);

// The largest share of access times the number of PS: 1 when it is even.
double AccessPeak(const std::set<int>& there, const std::vector<PlacedShard>& shards);

}  // namespace coxswain::core
