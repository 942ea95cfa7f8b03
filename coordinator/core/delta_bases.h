// The older checkpoint that the next one may build on, for each shard: a checkpoint from which the
// shard has reached its current state by updates alone.
//
// If more than one checkpoint is kept, the base is not the newest but the one before, so that two
// consecutive checkpoints share no file: damage to one does not affect the other.
//
// Thread model: the coordinator's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "coordinator/core/row_writes.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::core {

class DeltaBases {
 public:
  // `keep`: the number of checkpoints that are kept.
  explicit DeltaBases(int keep) : distance_(keep > 1 ? 2 : 1) {}

  // The checkpoint in directory `path` has been written, or the job was resumed from it. `writes`:
  // a shard whose direct writes it may lack cannot use it as a base, because writes do not change
  // the shard's count of updates.
  void Add(const checkpoint::Manifest& manifest, const std::string& path, const RowWrites& writes);
  // These shards went back to checkpoint `number`; 0: to their initial values.
  void WentBack(const std::set<ShardId>& shards, uint64_t number);
  // There may be an unknown checkpoint: shards have no base until two more are written.
  void Clear() { saved_.clear(); }
  // A program writes rows of the shard.
  void Written(ShardId shard) { saved_.erase(shard); }

  // The base of the shard. Null: the whole shard must be written. Valid until the next call of
  // another method.
  const proto::SavedShard* Find(ShardId shard) const;

 private:
  struct Saved {
    uint64_t number = 0;
    proto::SavedShard shard;
  };

  size_t distance_;
  std::map<ShardId, std::deque<Saved>> saved_;  // by ascending number, at most distance_
};

}  // namespace coxswain::core
