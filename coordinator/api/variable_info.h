// What a handle on state names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coxswain/strategy.h"
#include "protos/variable.pb.h"
#include "runtime/base/ids.h"
#include "runtime/base/row_mix.h"

namespace coxswain {

struct VariableInfo {
  std::string name;
  uint64_t owner = 0;  // number of the strategy that made it; 0: none
  DType dtype = DType::kF32;
  std::string rounding;            // bf16: see proto::VariableSpec
  DType wire_dtype = DType::kF32;  // kBF16: f32 travels rounded to it
  Shape shape;
  proto::OptimizerSpec optimizer;
  bool table = false;
  std::string strategy;                            // "div", "mod" or "hash", see proto::ShardSpec
  std::optional<proto::HashTableSpec> hash_table;  // if it is one
  std::vector<proto::ShardSpec> shards;

  // Of what lookups give and updates take: bf16 is a way to store f32.
  DType value_dtype() const { return dtype == DType::kBF16 ? DType::kF32 : dtype; }
  bool hash() const { return hash_table.has_value(); }
  // -1 of a hash table: it has as many as it has ids.
  int64_t row_elements() const {
    int64_t elements = 1;
    for (int i = 1; i < shape.rank(); ++i) elements *= shape.dim(i);
    return elements;
  }
  int64_t rows() const { return shape.rank() == 0 ? 1 : shape.dim(0); }
  // The variable's row that is row `local` of a shard; not of a hash table.
  int64_t GlobalRow(int shard, int64_t local) const {
    if (strategy == "div") return shards[static_cast<size_t>(shard)].row_begin() + local;
    const int64_t place = shard + local * static_cast<int64_t>(shards.size());
    return strategy == "hash" ? RowMix(rows()).Row(place) : place;
  }
  // Whether the shards' rows one after the other are the variable's.
  bool in_row_order() const {
    return strategy == "div" || (strategy == "mod" && shards.size() == 1);
  }
  Shape ShardShape(int shard) const {
    Shape s = shape;
    if (s.rank() > 0 && !hash()) s.set_dim(0, shards[shard].rows());
    return s;
  }
};

// What a handle that was given no variable has for its info().
inline const VariableInfo& NoVariable() {
  static const VariableInfo* const none = new VariableInfo;
  return *none;
}
// InvalidArgument unless the variable is of the strategy with this number; names both.
absl::Status CheckStrategy(const VariableInfo& info, uint64_t strategy);

}  // namespace coxswain
