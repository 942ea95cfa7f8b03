// Counts the updates that lost shards do not get back when they go back to a checkpoint and no
// closure runs again (accept_loss). It works in slices of bounded length, because there may be
// many: closures times shards. Does no I/O. Owned by the coordinator's loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "coordinator/core/closure_log.h"
#include "runtime/base/ids.h"
#include "runtime/checkpoint/ledger.h"

namespace coxswain::core {

class LostUpdates {
 public:
  // Returns the numbers of a plan's updates of a shard.
  using KeysOf = std::function<std::vector<uint32_t>(PlanId plan, ShardId shard)>;
  struct Shard {
    ShardId id = 0;
    std::string ledger;  // as in the checkpoint; empty: it has no closure from low_water on
  };

  // The shards went back to a checkpoint that has all closures below `low_water`.
  void Begin(std::vector<Shard> shards, ClosureId low_water, KeysOf keys_of);
  // Examines complete closures in the log, for about `most` updates. True: all were examined. The
  // log must not change until then.
  bool Count(const ClosureLog& log, int64_t most);
  // Steps found lost since Begin, summed over updates, without those of earlier Commits.
  int64_t lost() const { return lost_; }
  // Confirms that the updates counted since Begin are lost; otherwise they do not count.
  void Commit(const ClosureLog& log);
  // The log has no closures below `first` any more.
  void Trim(ClosureId first);

 private:
  // A shard went back: of the closures that were complete then, it has those in the ledger.
  struct Loss {
    std::shared_ptr<const checkpoint::Ledger> ledger;
    ClosureId low_water = 0;
    ClosureId last = 0;   // the highest closure that was complete then
    uint64_t before = 0;  // closures of this or a later order were not complete then, see
                          // ClosureLog::Entry
    bool Lost(ClosureId id, uint64_t order, uint32_t step, uint32_t key) const {
      return id >= low_water && id <= last && order < before && !ledger->Contains(id, step, key);
    }
  };

  // Loads the next shard's ledger and keys.
  void BeginShard();

  std::map<ShardId, std::vector<Loss>> losses_;

  // Since Begin.
  std::vector<Shard> shards_;
  std::map<ShardId, std::shared_ptr<const checkpoint::Ledger>> ledgers_;
  ClosureId low_water_ = 0;
  KeysOf keys_of_;
  size_t shard_ = 0;    // looked at now
  ClosureId next_ = 0;  // closure
  absl::flat_hash_map<PlanId, std::vector<uint32_t>> keys_;
  int64_t lost_ = 0;
};

}  // namespace coxswain::core
