// Shard specs, updates and random values for tests of parameter servers.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "coxswain/tensor.h"
#include "protos/variable.pb.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::testing {

inline proto::OptimizerSpec OptimizerOf(const std::string& kind, double learning_rate = 0.1) {
  proto::OptimizerSpec spec;
  spec.set_kind(kind);
  if (!kind.empty()) spec.set_learning_rate(learning_rate);
  return spec;
}

inline proto::VariableSpec VariableOf(const std::string& name, const std::vector<int64_t>& shape,
                                      bool table, const proto::OptimizerSpec& optimizer,
                                      DType dtype = DType::kF32) {
  proto::VariableSpec spec;
  spec.set_name(name);
  spec.set_dtype(static_cast<int32_t>(dtype));
  for (int64_t dim : shape) spec.mutable_shape()->add_dims(dim);
  spec.set_table(table);
  *spec.mutable_optimizer() = optimizer;
  return spec;
}

// The shards of a variable; ids from `first_id` on. "div" gives the first shards one row more.
inline std::vector<proto::ShardSpec> SplitOf(const proto::VariableSpec& variable, int count,
                                             const std::string& strategy, uint32_t first_id = 1) {
  const int64_t total = variable.shape().dims_size() > 0 ? variable.shape().dims(0) : 1;
  std::vector<proto::ShardSpec> shards;
  int64_t begin = 0;
  for (int i = 0; i < count; ++i) {
    proto::ShardSpec& shard = shards.emplace_back();
    shard.set_id(first_id + static_cast<uint32_t>(i));
    *shard.mutable_variable() = variable;
    shard.set_index(i);
    shard.set_count(count);
    shard.set_strategy(strategy);
    const int64_t rows = total / count + (i < total % count ? 1 : 0);  // so it is for mod as well
    shard.set_rows(rows);
    if (strategy == "div") shard.set_row_begin(begin);
    begin += rows;
  }
  return shards;
}

inline proto::ShardSpec WholeOf(const proto::VariableSpec& variable, uint32_t id = 1) {
  return SplitOf(variable, 1, "div", id)[0];
}

inline std::vector<float> RandomFloats(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = value(random);
  return values;
}

inline Tensor RandomTensor(Shape shape, uint64_t seed) {
  return Tensor::FromVector(RandomFloats(shape.num_elements(), seed), shape).value();
}

inline Tensor Ids(const std::vector<int64_t>& ids) { return Tensor::FromVector(ids); }

inline graph::Update UpdateOf(graph::Update::Kind kind, ShardId shard, Tensor values,
                              Tensor ids = {}) {
  graph::Update update;
  update.kind = kind;
  update.shard = shard;
  update.values = std::move(values);
  update.ids = std::move(ids);
  return update;
}

template <typename T>
std::vector<T> ValuesOf(const Tensor& tensor) {
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

// Of a tensor of any dtype that a part of a shard can have.
inline std::vector<float> AsFloats(const Tensor& tensor) {
  std::vector<float> values;
  switch (tensor.dtype()) {
    case DType::kF64:
      for (double v : tensor.values<double>()) values.push_back(static_cast<float>(v));
      return values;
    case DType::kI64:
      for (int64_t v : tensor.values<int64_t>()) values.push_back(static_cast<float>(v));
      return values;
    case DType::kBF16:
      for (BFloat16 v : tensor.values<BFloat16>()) values.push_back(v.ToFloat());
      return values;
    default:
      return ValuesOf<float>(tensor);
  }
}

}  // namespace coxswain::testing
