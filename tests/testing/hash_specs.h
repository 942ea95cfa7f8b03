// Hash tables for tests of parameter servers.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/id_hash.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::testing {

inline proto::VariableSpec HashTableOf(const std::string& name, int64_t dim,
                                       const proto::OptimizerSpec& optimizer,
                                       const proto::HashTableSpec& hash = {}) {
  proto::VariableSpec spec = VariableOf(name, {-1, dim}, true, optimizer);
  spec.mutable_initializer()->set_kind("normal");
  spec.mutable_initializer()->set_seed(5);
  *spec.mutable_hash() = hash;
  return spec;
}

// Its shards; ids of shards from `first_id` on.
inline std::vector<proto::ShardSpec> HashShardsOf(const proto::VariableSpec& variable, int count,
                                                  uint32_t first_id = 1) {
  std::vector<proto::ShardSpec> shards;
  for (int i = 0; i < count; ++i) {
    proto::ShardSpec& shard = shards.emplace_back();
    shard.set_id(first_id + static_cast<uint32_t>(i));
    *shard.mutable_variable() = variable;
    shard.set_index(i);
    shard.set_count(count);
    shard.set_strategy("hash");
  }
  return shards;
}

// Those of `ids` that shard `index` of `count` holds, and their rows.
struct OfShard {
  std::vector<int64_t> ids;
  Tensor rows;
};
inline OfShard PickOfShard(const std::vector<int64_t>& ids, const Tensor& rows, int64_t index,
                           int64_t count) {
  OfShard picked;
  std::vector<float> values;
  const int64_t width = rows.dim(1);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (HashShard(ids[i], count) != index) continue;
    picked.ids.push_back(ids[i]);
    const float* row = rows.data<float>() + static_cast<int64_t>(i) * width;
    values.insert(values.end(), row, row + width);
  }
  picked.rows =
      Tensor::FromVector(values, Shape{static_cast<int64_t>(picked.ids.size()), width}).value();
  return picked;
}

}  // namespace coxswain::testing
