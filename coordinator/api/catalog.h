// State that all strategies on one cluster share: names in use, the numbers that identify shards,
// plans and data sets on the wire, and the PS of each shard.
//
// Thread-safe. A pure table: it does no I/O.
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
  ValuesId NewValues();
  // A data set's number, and the program's position in it. The caller owns the cursor.
  struct DatasetPlace {
    DatasetId id = 0;
    std::shared_ptr<DataCursor> cursor;
  };
  // Adds a new data set. If the program goes on from a checkpoint, the data set takes the number
  // and position of one with the same data: preferably the n-th of the checkpoint if this is the
  // n-th to be created, else the first that is left. Errors: FailedPrecondition when there is none,
  // and the n-th was trained on other data.
  absl::StatusOr<DatasetPlace> AddDataset(uint64_t fingerprint);
  // The data set could not be created: its number and position are free for the next one.
  void RemoveDataset(DatasetId dataset);
  // It is used no more; no other one gets its number.
  void ReleaseDataset(DatasetId dataset);
  // Forgets the data sets of the checkpoint that none was created for; returns which they were.
  std::vector<DatasetId> TakeUnclaimed();

  // Reserves a variable's name for the strategy called `owner`.
  // Errors: AlreadyExists naming its owner; FailedPrecondition for a name in the layout of another
  // strategy.
  absl::Status TakeName(const std::string& name, const std::string& owner);
  void ReleaseName(const std::string& name);

  // Takes the layout of a checkpoint: its shards keep their numbers, and each gets a PS. Data sets
  // go on from their positions in the checkpoint. Errors: FailedPrecondition when any shard was
  // placed before, or an existing data set differs from the checkpoint's data set of its number.
  // The names of its variables are reserved for `owner`, unless another strategy takes the same
  // layout, too, with the same names: then each variable is of the one that creates it.
  absl::Status TakeLayout(const checkpoint::Manifest& manifest, const std::string& owner);
  // Whether a second strategy has.
  bool shares_layout() const {
    absl::MutexLock lock(&mu_);
    return layout_owners_.size() > 1;
  }
  // The layout's variables that nobody has created, in the order of their names.
  std::vector<std::string> LayoutLeftOver() const;
  // Gives each new shard a number and a PS. Those of a table NAME_bias go beside those of table
  // NAME if both are cut in the same way, so that a bias is where its row is. (Shards that move
  // later may part.)
  void Place(std::vector<proto::ShardSpec>* shards);
  // Removes shards that could not be created.
  void Remove(const std::vector<proto::ShardSpec>& shards);
  // -1: the shard does not exist.
  int PsOf(ShardId shard) const;

 private:
  // Errors: as TakeLayout.
  absl::Status CheckData(const checkpoint::Manifest& manifest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // How a table is cut, and its shards in their order.
  struct Cut {
    std::string how;
    std::vector<ShardId> shards;
  };
  // Those of a layout that belong beside others, once all have a PS.
  void PlaceBeside(const checkpoint::Manifest& manifest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteCut(const std::vector<proto::ShardSpec>& shards) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The table beside which the one belongs whose first shard this is; null: there is none.
  const Cut* CutBeside(const proto::ShardSpec& first) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::set<int> all_ps_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> owners_ ABSL_GUARDED_BY(mu_);     // by variable
  std::map<std::string, std::string> in_layout_ ABSL_GUARDED_BY(mu_);  // owner, by variable
  std::string layout_of_ ABSL_GUARDED_BY(mu_);  // the manifest as text; empty: none
  std::set<std::string> layout_owners_ ABSL_GUARDED_BY(mu_);
  std::vector<core::PlacedShard> placed_ ABSL_GUARDED_BY(mu_);
  std::map<ShardId, int> ps_of_shard_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Cut> cuts_ ABSL_GUARDED_BY(mu_);  // by table
  ShardId next_shard_ ABSL_GUARDED_BY(mu_) = 1;
  PlanId last_plan_ ABSL_GUARDED_BY(mu_) = 0;
  ValuesId last_values_ ABSL_GUARDED_BY(mu_) = 0;
  // The data sets that were created or that the checkpoint has, with the program's positions.
  std::map<DatasetId, std::shared_ptr<DataCursor>> cursors_ ABSL_GUARDED_BY(mu_);
  std::set<DatasetId> made_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain
