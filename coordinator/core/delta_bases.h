// Which older checkpoint the next one may build on, shard by shard: one from which, update by
// update, the shard has come to what it is now.
//
// Where more than one checkpoint is kept it is not the newest but the one before, so that two that
// follow one another have no file in common: what damages one leaves the other whole.
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
  // `keep`: how many checkpoints are kept.
  explicit DeltaBases(int keep) : distance_(keep > 1 ? 2 : 1) {}

  // The checkpoint in directory `path` has been written, or is what the job was resumed from.
  // `writes`: a shard that it may lack some of is not in it for this purpose, for its count of
  // updates does not tell.
  void Add(const checkpoint::Manifest& manifest, const std::string& path, const RowWrites& writes);
  // These shards went back to checkpoint `number`; 0: to their initial values.
  void WentBack(const std::set<ShardId>& shards, uint64_t number);
  // There may be a checkpoint that is not known here: none has a base until two more are written.
  void Clear() { saved_.clear(); }
  // The shard is written to by hand.
  void Written(ShardId shard) { saved_.erase(shard); }

  // Null: all of the shard is to be written. It lasts until the next call of another method.
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
