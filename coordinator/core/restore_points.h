// The restore points of lost shards: the newest checkpoints, or the variables' initial values. Does
// no I/O. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/placement.h"
#include "runtime/base/ids.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::core {

// A checkpoint; number 0: the variables' initial values.
struct RestorePoint {
  checkpoint::Manifest manifest;
  std::string path = {};  // its directory
  bool bad = false;       // it could not be read
  int64_t steps = 0;      // Manifest::steps_done; the manifest may be without its closures
};

class RestorePoints {
 public:
  // The job goes on from this checkpoint, so initial values are not a restore point any more.
  void Resume(checkpoint::Manifest manifest, std::string path);
  // A checkpoint was written. The two newest are kept, because the newest may turn out to be
  // damaged. False: it is already known.
  bool Add(const checkpoint::Manifest& manifest, std::string path);
  void MarkBad(uint64_t number);

  // True when no checkpoint was written or resumed from.
  bool empty() const { return checkpoints_.empty(); }
  int size() const { return static_cast<int>(checkpoints_.size()); }
  const RestorePoint& newest() const { return checkpoints_.back(); }
  const RestorePoint& oldest() const { return checkpoints_.front(); }
  // The checkpoint with this number, or the initial values.
  const RestorePoint& Find(uint64_t number) const;
  // The checkpoint from which new shards get their values: the one that the job goes on from. Null:
  // none.
  const RestorePoint* first_values() const { return resumed_ ? &oldest() : nullptr; }
  bool resumed() const { return resumed_; }
  // Of a new shard. Errors: FailedPrecondition for one whose value is in the checkpoint that the
  // job goes on from, and in none of those that are kept by now.
  absl::Status CheckFirstValue(const proto::ShardSpec& shard) const;

  struct Need {
    bool runs_again = true;                        // whether all closures since then run again
    std::function<bool(ClosureId)> covers;         // whether the closures from this one on are
                                                   // known
    std::set<ShardId> goes_back;                   // shards
    std::map<ShardId, uint64_t> safe_from;         // see RowWrites
    std::function<std::string(ShardId)> variable;  // the shard's name, for messages
  };
  // The newest restore point from which everything can be restored. Errors: DataLoss, naming for
  // each the reason why not.
  absl::StatusOr<const RestorePoint*> Choose(const Need& need) const;

  // The load of each shard between the two newest checkpoints; if these are fewer than `min_rows`
  // rows, over its whole life.
  std::map<ShardId, ShardLoad> Loads(double min_rows) const;

 private:
  // Why the point cannot be used; empty if it can.
  std::string WhyNot(const RestorePoint& point, const Need& need) const;

  std::vector<RestorePoint> checkpoints_;  // oldest first
  RestorePoint initial_;
  bool resumed_ = false;
  uint64_t resumed_number_ = 0;
  std::set<ShardId> resumed_shards_;
};

// Null when the checkpoint does not have it.
const proto::SavedShard* FindSaved(const checkpoint::Manifest& manifest, ShardId shard);

}  // namespace coxswain::core
