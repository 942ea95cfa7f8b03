// Chooses the PS of each shard: pure functions of bytes and of measured access. Both should be
// even; each is measured as a share of its sum. Many shards per PS can be balanced better.
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

// Rows of the shard, for placing it. For a hash table, whose rows are not known in advance: the
// number that max_rows allows, or a guess.
int64_t ExpectedRows(const proto::ShardSpec& shard);

struct ShardLoad {
  double bytes = 0;   // of its values; optimizer slots are not counted
  double access = 0;  // bytes of values read and updated in a period; 0: not known
  double rows = 0;    // rows read and updated in that period
};
// The load before training.
ShardLoad LoadOf(const proto::ShardSpec& shard);
// The load since the variable was created, as counted in a checkpoint ...
ShardLoad LoadOf(const proto::SavedShard& saved);
// ... or since an earlier checkpoint. Counts that went back in a recovery are taken from zero.
ShardLoad LoadSince(const proto::SavedShard& saved, const proto::SavedShard& earlier);

struct PlacedShard {
  ShardId id = 0;
  ShardLoad load;
  int ps = -1;  // none yet
};

// Assigns each shard that is on none of the PS `there` (not empty) to one of them, the largest
// first. Ties are broken by the shards' order and by the lower PS number. O(shards x PS).
void PlaceShards(const std::set<int>& there, std::vector<PlacedShard>* shards);

// The shards that should move, with their new PS, so that access and bytes become even; empty when
// they are even already or moves would gain little. Each shard must be on one of `there`.
std::map<ShardId, int> ChooseMoves(const std::set<int>& there,
                                   const std::vector<PlacedShard>& shards,
                                   const BalanceRules& rules);

// The largest share of access times the number of PS: 1 when it is even.
double AccessPeak(const std::set<int>& there, const std::vector<PlacedShard>& shards);

}  // namespace coxswain::core
