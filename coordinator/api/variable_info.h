// The description of a variable or table, shared by its handles.
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
  uint64_t owner = 0;  // number of the strategy that created it; 0: none
  DType dtype = DType::kF32;
  std::string rounding;  // bf16: see proto::VariableSpec
  std::string device;    // a table's: see proto::VariableSpec
  bool on_gpu() const { return device == "gpu"; }
  DType wire_dtype = DType::kF32;  // kBF16: f32 is rounded to bf16 for sending
  Shape shape;
  proto::OptimizerSpec optimizer;
  bool table = false;
  std::string strategy;                            // "div", "mod" or "hash", see proto::ShardSpec
  std::optional<proto::HashTableSpec> hash_table;  // for hash tables only
  std::vector<proto::ShardSpec> shards;

  // The type of values in lookups and updates: bf16 is only a storage type for f32.
  DType value_dtype() const { return dtype == DType::kBF16 ? DType::kF32 : dtype; }
  bool hash() const { return hash_table.has_value(); }
  // rows() is -1 for a hash table, which has as many rows as ids.
  int64_t row_elements() const {
    int64_t elements = 1;
    for (int i = 1; i < shape.rank(); ++i) elements *= shape.dim(i);
    return elements;
  }
  int64_t rows() const { return shape.rank() == 0 ? 1 : shape.dim(0); }
  // The variable's row that is row `local` of a shard. Not for hash tables.
  int64_t GlobalRow(int shard, int64_t local) const {
    if (strategy == "div") return shards[static_cast<size_t>(shard)].row_begin() + local;
    const int64_t place = shard + local * static_cast<int64_t>(shards.size());
    return strategy == "hash" ? RowMix(rows()).Row(place) : place;
  }
  // Whether the concatenated rows of the shards are the variable's rows in order.
  bool in_row_order() const {
    return strategy == "div" || (strategy == "mod" && shards.size() == 1);
  }
  Shape ShardShape(int shard) const {
    Shape s = shape;
    if (s.rank() > 0 && !hash()) s.set_dim(0, shards[shard].rows());
    return s;
  }
};

// The info() of an empty handle.
inline const VariableInfo& NoVariable() {
  static const VariableInfo* const none = new VariableInfo;
  return *none;
}
// InvalidArgument, naming both, unless the variable belongs to the strategy with this number.
absl::Status CheckStrategy(const VariableInfo& info, uint64_t strategy);

}  // namespace coxswain
