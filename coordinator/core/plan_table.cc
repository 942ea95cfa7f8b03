#include "coordinator/core/plan_table.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/function/number_updates.h"
#include "runtime/graph/serialize.h"

namespace coxswain::core {

std::vector<PlanTable::ShardUpdate> PlanTable::UpdatesOf(const graph::Function& function) {
  graph::Function numbered = function;
  function::NumberUpdates(&numbered);
  std::vector<ShardUpdate> updates;
  for (const graph::Node& node : numbered.graph.nodes()) {
    if (!function::IsUpdate(numbered.graph, node)) continue;
    const auto shard = graph::GetAttr<int64_t>(node.attrs, "shard");
    const auto key = graph::GetAttr<int64_t>(node.attrs, function::kUpdateAttr);
    if (!shard.ok()) continue;
    updates.push_back({static_cast<ShardId>(*shard), static_cast<uint32_t>(key.value_or(0)),
                       function::IsFetch(numbered.graph, node)});
  }
  return updates;
}

absl::Status PlanTable::Place(PlanId id, const PsOf& ps_of, Plan* plan) const {
  ASSIGN_OR_RETURN(function::Partition partition,
                   function::PartitionFunction(*plan->function, num_ps_, ps_of));
  plan->for_worker.Clear();
  plan->for_worker.set_plan(id);
  *plan->for_worker.mutable_worker() = graph::ToProto(partition.worker);
  for (const auto& source : plan->sources) *plan->for_worker.add_sources() = source;
  plan->for_worker.set_dataset(plan->dataset);
  plan->for_ps.assign(static_cast<size_t>(num_ps_), proto::RegisterPlan());
  for (size_t p = 0; p < plan->for_ps.size(); ++p) {
    plan->for_ps[p].set_plan(id);
    for (const graph::Function& segment : partition.segments[p]) {
      *plan->for_ps[p].add_segments() = graph::ToProto(segment);
    }
  }
  return absl::OkStatus();
}

absl::Status PlanTable::Add(PlanId id, std::shared_ptr<const graph::Function> function,
                            std::vector<proto::ArgumentSource> sources, DatasetId dataset,
                            const PsOf& ps_of) {
  expected_.erase(id);
  Plan plan;
  plan.updates = UpdatesOf(*function);
  plan.function = std::move(function);
  plan.sources = std::move(sources);
  plan.dataset = dataset;
  RETURN_IF_ERROR(Place(id, ps_of, &plan));
  if (const auto replaced = plans_.extract(id); !replaced.empty() && Fetches(replaced.mapped())) {
    --fetching_;
  }
  if (Fetches(plan)) ++fetching_;
  plans_.emplace(id, std::move(plan));
  return absl::OkStatus();
}

absl::Status PlanTable::PlaceAgain(const PsOf& ps_of) {
  for (auto& [id, plan] : plans_) RETURN_IF_ERROR(Place(id, ps_of, &plan));
  return absl::OkStatus();
}

void PlanTable::LetGo(PlanId id) {
  expected_.erase(id);
  if (Has(id)) let_go_.insert(id);
}

void PlanTable::Remove(PlanId id) {
  const auto removed = plans_.extract(id);
  if (!removed.empty() && Fetches(removed.mapped())) --fetching_;
  let_go_.erase(id);
}

bool PlanTable::Reads(DatasetId dataset) const {
  return std::any_of(plans_.begin(), plans_.end(),
                     [dataset](const auto& plan) { return plan.second.dataset == dataset; });
}

bool PlanTable::Reads(ValuesId values) const {
  const auto is_of = [values](const proto::ArgumentSource& source) {
    return source.values() == values.number();
  };
  return std::any_of(plans_.begin(), plans_.end(), [&](const auto& plan) {
    const auto& sources = plan.second.sources;
    return std::any_of(sources.begin(), sources.end(), is_of);
  });
}

bool PlanTable::Updates(PlanId id) const {
  const auto plan = plans_.find(id);
  return plan != plans_.end() && !plan->second.updates.empty();
}

std::vector<uint32_t> PlanTable::KeysOf(PlanId id, ShardId shard) const {
  std::vector<uint32_t> keys;
  const auto plan = plans_.find(id);
  if (plan == plans_.end()) return keys;
  for (const ShardUpdate& update : plan->second.updates) {
    if (update.shard == shard) keys.push_back(update.key);
  }
  return keys;
}

bool PlanTable::Fetches(const Plan& plan) {
  return std::any_of(plan.updates.begin(), plan.updates.end(),
                     [](const ShardUpdate& update) { return update.fetches; });
}

std::set<ShardId> PlanTable::FetchedShards() const {
  std::set<ShardId> shards;
  if (!AnyFetch()) return shards;
  for (const auto& [id, plan] : plans_) {
    for (const ShardUpdate& update : plan.updates) {
      if (update.fetches) shards.insert(update.shard);
    }
  }
  return shards;
}

std::optional<proto::ControlRequest> PlanTable::ForPs(PlanId id, int ps) const {
  const proto::RegisterPlan& part = plans_.at(id).for_ps[static_cast<size_t>(ps)];
  if (part.segments().empty()) return std::nullopt;
  proto::ControlRequest request;
  *request.mutable_register_plan() = part;
  return request;
}

proto::ControlRequest PlanTable::ForWorker(PlanId id) const {
  proto::ControlRequest request;
  *request.mutable_register_plan() = plans_.at(id).for_worker;
  return request;
}

std::vector<proto::ControlRequest> PlanTable::AllForPs(int ps) const {
  std::vector<proto::ControlRequest> requests;
  for (const auto& [id, plan] : plans_) {
    if (auto request = ForPs(id, ps)) requests.push_back(*std::move(request));
  }
  return requests;
}

std::vector<proto::ControlRequest> PlanTable::AllForWorker() const {
  std::vector<proto::ControlRequest> requests;
  for (const auto& [id, plan] : plans_) requests.push_back(ForWorker(id));
  return requests;
}

}  // namespace coxswain::core
