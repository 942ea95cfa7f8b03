// What lost shards can go back to: the newest checkpoints, or the variables' initial values. Pure.
// Owned by the coordinator's loop.
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
  std::string path;  // its directory
  bool bad = false;  // it could not be read
};

class RestorePoints {
 public:
  // The job goes on from this checkpoint: there are no initial values any more.
  void Resume(checkpoint::Manifest manifest, std::string path);
  // One was written. At most two stay: the newest may turn out to be damaged. False: it is known.
  bool Add(const checkpoint::Manifest& manifest, std::string path);
  void MarkBad(uint64_t number);

  // No checkpoint was written, and none resumed from.
  bool empty() const { return checkpoints_.empty(); }
  int size() const { return static_cast<int>(checkpoints_.size()); }
  const RestorePoint& newest() const { return checkpoints_.back(); }
  const RestorePoint& oldest() const { return checkpoints_.front(); }
  // That one, or the initial values.
  const RestorePoint& Find(uint64_t number) const;
  // What a shard that is created is restored from: the checkpoint that the job goes on from. Null:
  // from nothing.
  const RestorePoint* first_values() const { return resumed_ ? &oldest() : nullptr; }
  bool resumed() const { return resumed_; }

  struct Need {
    bool runs_again = true;                        // all closures since then do
    std::function<bool(ClosureId)> covers;         // whether those from this one on are known
    std::set<ShardId> goes_back;                   // shards
    std::map<ShardId, uint64_t> safe_from;         // see RowWrites
    std::function<std::string(ShardId)> variable;  // the shard's, for people
  };
  // The newest that everything can be had from again. Errors: DataLoss, saying for each why not.
  absl::StatusOr<const RestorePoint*> Choose(const Need& need) const;

  // Of each shard between the two newest checkpoints; over all of its time where that is little:
  // fewer than `min_rows` rows.
  std::map<ShardId, ShardLoad> Loads(double min_rows) const;

 private:
  // Empty: nothing is wrong with it.
  static std::string WhyNot(const RestorePoint& point, const Need& need);

  std::vector<RestorePoint> checkpoints_;  // oldest first
  RestorePoint initial_;
  bool resumed_ = false;
};

// Null when the checkpoint does not have it.
const proto::SavedShard* FindSaved(const checkpoint::Manifest& manifest, ShardId shard);

}  // namespace coxswain::core
