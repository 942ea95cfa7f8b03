// The functions of programs as plans: placed for the current location of shards, and kept as long
// as a closure may still run them. Does no I/O. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/function/partition.h"

namespace coxswain::core {

class PlanTable {
 public:
  // Returns the PS of a shard.
  using PsOf = std::function<int(ShardId)>;

  explicit PlanTable(int num_ps) : num_ps_(num_ps) {}

  // The plan will be added, perhaps much later, unless it is let go before.
  void Expect(PlanId id) { expected_.insert(id); }
  bool expected(PlanId id) const { return expected_.count(id) > 0; }
  // It is expected no more. Errors: InvalidArgument naming the invalid node; then the plan was not
  // added.
  absl::Status Add(PlanId id, std::shared_ptr<const graph::Function> function,
                   std::vector<proto::ArgumentSource> sources, DatasetId dataset,
                   const PsOf& ps_of);
  // Places all plans again after shards have moved.
  absl::Status PlaceAgain(const PsOf& ps_of);
  bool Has(PlanId id) const { return plans_.count(id) > 0; }
  // The plan will not be scheduled any more; it is removed when no scheduled closure can run again.
  void LetGo(PlanId id);
  bool let_go(PlanId id) const { return let_go_.count(id) > 0; }
  void Remove(PlanId id);

  // Whether any plan has columns of this data set.
  bool Reads(DatasetId dataset) const;
  // Whether any plan has results of these values for arguments.
  bool Reads(ValuesId values) const;
  // Whether it changes anything.
  bool Updates(PlanId id) const;
  // The numbers of the plan's updates of a shard.
  std::vector<uint32_t> KeysOf(PlanId id, ShardId shard) const;
  // Shards that some plan fetches and adds to: what it writes elsewhere may depend on the number
  // that it got.
  std::set<ShardId> FetchedShards() const;
  // Whether there are any, without listing them.
  bool AnyFetch() const { return fetching_ > 0; }
  const std::string& FunctionName(PlanId id) const { return plans_.at(id).function->name; }

  // The requests that register one plan, or all plans, with a task; nullopt for a PS that has no
  // component of the plan.
  std::optional<proto::ControlRequest> ForPs(PlanId id, int ps) const;
  proto::ControlRequest ForWorker(PlanId id) const;
  std::vector<proto::ControlRequest> AllForPs(int ps) const;
  std::vector<proto::ControlRequest> AllForWorker() const;

 private:
  // One update node of a function: which shard, and its number there.
  struct ShardUpdate {
    ShardId shard = 0;
    uint32_t key = 0;
    bool fetches = false;
  };
  struct Plan {
    std::shared_ptr<const graph::Function> function;
    std::vector<proto::ArgumentSource> sources;
    DatasetId dataset = 0;
    std::vector<ShardUpdate> updates;  // empty: no updates
    // For the current placement.
    proto::RegisterPlan for_worker;
    std::vector<proto::RegisterPlan> for_ps;
  };

  static bool Fetches(const Plan& plan);
  static std::vector<ShardUpdate> UpdatesOf(const graph::Function& function);
  absl::Status Place(PlanId id, const PsOf& ps_of, Plan* plan) const;

  const int num_ps_;
  std::map<PlanId, Plan> plans_;
  int fetching_ = 0;  // plans
  std::set<PlanId> expected_, let_go_;
};

}  // namespace coxswain::core
