// What all strategies on one cluster share: which names are taken, the numbers that tell shards,
// plans and data sets apart on the wire, and where each shard lies.
//
// Thread-safe. A pure table: it talks to nobody.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/api/data_cursor.h"
#include "coordinator/core/placement.h"
#include "runtime/base/ids.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain {

class Catalog {
 public:
  explicit Catalog(int num_ps) {
    for (int ps = 0; ps < num_ps; ++ps) all_ps_.insert(ps);
  }

  PlanId NewPlan();
  // A data set's number, and where the program is in it. The cursor belongs to who uses it.
  struct DatasetPlace {
    DatasetId id = 0;
    std::shared_ptr<DataCursor> cursor;
  };
  // For a new data set. Of the data sets of the checkpoint that the program goes on from it is the
  // one with the same data: the first that is left, as far as possible the one that was created
  // as the n-th, as this one is. Errors: FailedPrecondition when there is none, and the n-th was
  // trained on other data.
  absl::StatusOr<DatasetPlace> AddDataset(uint64_t fingerprint);
  // It could not be made: number and place are there for the next one.
  void RemoveDataset(DatasetId dataset);
  // It is used no more; no other one gets its number.
  void ReleaseDataset(DatasetId dataset);
  // Forgets the data sets of the checkpoint that none was created for; returns which they were.
  std::vector<DatasetId> TakeUnclaimed();

  // Reserves a variable's name for the strategy called `owner`.
  // Errors: AlreadyExists naming who has it; FailedPrecondition for a name in the layout of another
  // strategy.
  absl::Status TakeName(const std::string& name, const std::string& owner);
  void ReleaseName(const std::string& name);

  // Shards of a checkpoint keep their numbers; each gets a PS. Data sets go on where it was in
  // them. Errors: FailedPrecondition when any shard was placed before, or a data set that is there
  // already is not the checkpoint's of its number. Its variables' names are for `owner`, the only
  // one who goes on from the checkpoint.
  absl::Status TakeLayout(const checkpoint::Manifest& manifest, const std::string& owner);
  // Gives new shards their numbers and each a PS.
  void Place(std::vector<proto::ShardSpec>* shards);
  // They could not be made.
  void Remove(const std::vector<proto::ShardSpec>& shards);
  // -1: there is no such shard.
  int PsOf(ShardId shard) const;

 private:
  // Errors: as TakeLayout.
  absl::Status CheckData(const checkpoint::Manifest& manifest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::set<int> all_ps_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> owners_ ABSL_GUARDED_BY(mu_);     // by variable
  std::map<std::string, std::string> in_layout_ ABSL_GUARDED_BY(mu_);  // owner, by variable
  std::vector<core::PlacedShard> placed_ ABSL_GUARDED_BY(mu_);
  std::map<ShardId, int> ps_of_shard_ ABSL_GUARDED_BY(mu_);
  ShardId next_shard_ ABSL_GUARDED_BY(mu_) = 1;
  PlanId last_plan_ ABSL_GUARDED_BY(mu_) = 0;
  // Data sets that were made or that the checkpoint has, and where the program is in them.
  std::map<DatasetId, std::shared_ptr<DataCursor>> cursors_ ABSL_GUARDED_BY(mu_);
  std::set<DatasetId> made_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain
