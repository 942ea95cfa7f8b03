// Which rows of a variable a shard holds. "Global" rows are numbered in the variable's first
// dimension, "local" rows in the shard.
//
//   div: a shard holds the rows [row_begin, row_begin + rows)
//   mod: shard `index` of `count` holds the rows index, index + count, index + 2 count, ...
//   hash: as mod, of the rows' places in the permutation of runtime/base/row_mix.h
//   hash, of a hash table: rows of any ids that runtime/base/id_hash.h sends to shard `index` of
//        `count`; they come and go, and local rows are places of its storage, see hash_rows.h
//
// An empty strategy is div. A scalar is one row of one element in one shard. A shard may have no
// rows.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "protos/variable.pb.h"
#include "runtime/base/row_mix.h"

namespace coxswain::ps {

class ShardLayout {
 public:
  // Errors: InvalidArgument when the spec contradicts itself or the variable's shape or dtype is
  // not one that can be stored: tables are f32 or bf16 of rank >= 1; dense variables f32, f64 or
  // i64.
  static absl::StatusOr<ShardLayout> Create(const proto::ShardSpec& spec);

  DType dtype() const { return dtype_; }
  // The type of values in reads and updates: bf16 is only a storage type for f32.
  DType value_dtype() const { return dtype_ == DType::kBF16 ? DType::kF32 : dtype_; }
  const Shape& variable_shape() const { return variable_shape_; }
  // The shard's own shape: that of the variable with `rows` in the first dimension.
  const Shape& shape() const { return shape_; }
  int64_t rows() const { return rows_; }
  int64_t row_elements() const { return row_elements_; }  // of one row; 1 for a scalar
  bool hashed() const { return hashed_; }
  // Hash tables: sets the current number of places.
  void SetRows(int64_t rows) {
    rows_ = rows;
    shape_.set_dim(0, rows);
  }
  size_t row_bytes() const { return static_cast<size_t>(row_elements_) * SizeOf(dtype_); }
  // [n, row...]: the shape of n rows. For a scalar: [n].
  Shape RowsShape(int64_t n) const;

  // Global row of a local one, 0 <= local < rows(). This and ToLocal are not for hash tables.
  int64_t ToGlobal(int64_t local) const {
    return mix_ ? mix_->Row(ToPlace(local)) : ToPlace(local);
  }
  // The same, except that for "hash" it is the row's place in the permutation. Like the row, it
  // does not depend on the number of shards.
  int64_t ToPlace(int64_t local) const { return first_ + local * step_; }
  // Local row of a global one, -1 when another shard holds it.
  int64_t ToLocal(int64_t global) const {
    if (mix_) {
      if (global < 0 || global >= variable_shape_.dim(0)) return -1;
      global = mix_->Place(global);
    }
    const int64_t offset = global - first_;
    if (offset < 0 || offset % step_ != 0 || offset / step_ >= rows_) return -1;
    return offset / step_;
  }

 private:
  DType dtype_ = DType::kInvalid;
  Shape variable_shape_;
  Shape shape_;
  int64_t rows_ = 0;
  int64_t row_elements_ = 1;
  bool hashed_ = false;
  int64_t first_ = 0;
  int64_t step_ = 1;
  std::optional<RowMix> mix_;  // hash, but of a hash table
};

}  // namespace coxswain::ps
