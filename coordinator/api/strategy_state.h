// What a strategy keeps. Its methods are in strategy.cc, those that make variables in
// strategy_variables.cc; strategy_rows.cc reads and writes rows by hand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/api/per_worker_dataset_state.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/strategy.h"
#include "protos/variable.pb.h"
#include "runtime/base/ids.h"

namespace coxswain {

// How messages call it.
std::string StrategyName(uint64_t number);
// Checkpoints cannot name what has no name, messages what is not UTF-8. Errors: InvalidArgument,
// with `what` it is.
absl::Status CheckName(absl::string_view what, const std::string& name);
// Unique in this process.
uint64_t NextStrategyNumber();

struct ParameterServerStrategy::State {
  State(Cluster of, Options given)
      : cluster(std::move(of)), options(std::move(given)), number(NextStrategyNumber()) {}

  absl::Status CheckOwner(const VariableInfo& info) const { return CheckStrategy(info, number); }
  // Also that there is such a shard.
  absl::Status CheckShard(const VariableInfo& info, int shard) const;
  absl::StatusOr<std::shared_ptr<const VariableInfo>> Create(std::shared_ptr<VariableInfo> info,
                                                             const proto::InitializerSpec& init,
                                                             int64_t shards);
  absl::Status CreateShards(VariableInfo* info, const proto::InitializerSpec& init, int64_t shards);
  // What says into how many shards a variable is cut: its own partitioner, or the strategy's; null
  // where the program has not said.
  const Partitioner& PartitionerOf(const Partitioner& own) const {
    return own ? own : options.partitioner;
  }
  // Of one of the layout, if the program wants another number than it keeps.
  void TellKeptShards(const VariableInfo& info, int64_t wanted) const;
  // Cuts the variable into new shards, or takes those of the layout.
  absl::Status MakeShards(VariableInfo* info, const proto::VariableSpec& spec, int64_t shards);
  absl::Status TakeShards(VariableInfo* info, const proto::VariableSpec& spec,
                          const std::vector<proto::ShardSpec>& saved);
  // On the workers.
  absl::Status RegisterDataset(const PerWorkerDataset::State& dataset);
  FunctionBuilder NewBuilder(const std::string& name) const;
  // `dataset`: that its columns come from; null: none.
  absl::StatusOr<RemoteFunction> Finish(FunctionBuilder builder,
                                        const PerWorkerDataset::State* dataset);

  Cluster cluster;
  Options options;
  uint64_t number = 0;
  double learning_rate_factor = 1;
  std::vector<std::shared_ptr<const VariableInfo>> variables;
  std::map<std::string, std::vector<proto::ShardSpec>> layout;  // by variable, by index
};

}  // namespace coxswain
