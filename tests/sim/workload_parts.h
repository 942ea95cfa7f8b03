// What workloads share: making their variables, spreading the shards, running them in one process.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/optimizers.h"
#include "runtime/base/logging.h"
#include "tests/sim/workload.h"

namespace coxswain::sim {

// For what cannot fail in these small functions.
template <typename T>
T Must(absl::StatusOr<T> value) {
  COX_CHECK(value.ok(), value.status().ToString());
  return *std::move(value);
}

struct VariableChoice {
  std::string name = {};
  Shape shape = {};  // of a hash table [-1, dim]
  bool table = false;
  std::optional<proto::HashTableSpec> hash = {};
  DType dtype = DType::kF32;
  std::string rounding = {};
  DType wire_dtype = DType::kF32;
  proto::OptimizerSpec optimizer = {};
  proto::InitializerSpec initializer = Zeros();
  int shards = 1;
};
// Its shards get the ids after `*last_id`.
std::shared_ptr<VariableInfo> NewVariable(const VariableChoice& choice, uint32_t* last_id);

std::vector<proto::ShardSpec> Spread(const std::vector<std::shared_ptr<VariableInfo>>& variables,
                                     int num_ps);

// What `applied` of shards must be, when each of `steps` steps updates each once; empty: it is so.
std::string CheckApplied(const FinalState& state, const FinalShard& shard, int64_t steps);
std::string CheckApplied(const FinalState& state, int64_t steps);

// The state that the closures of a workload with one function give one after the other, without a
// cluster.
FinalState RunAlone(const Workload& workload);

// The rows of a state by id, as they are stored. `*wrong` says so when an id is there twice.
std::map<int64_t, std::string> RowsById(const FinalState& state, std::string* wrong);

}  // namespace coxswain::sim
