#include "ps_server/shard_layout.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::ps {
namespace {

// Far above any machine's memory, far below what overflows when slots and padding are added.
constexpr int64_t kMaxShardBytes = int64_t{1} << 50;

absl::Status Invalid(const proto::ShardSpec& spec, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("shard ", spec.id(), " of variable '", spec.variable().name(), "': ", message));
}

absl::StatusOr<DType> StoredDType(const proto::ShardSpec& spec) {
  const bool table = spec.variable().table();
  const absl::string_view wanted =
      table ? "a table holds f32 or bf16" : "a variable holds f32, f64 or i64";
  const int32_t number = spec.variable().dtype();
  for (DType dtype :
       {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBool, DType::kBF16}) {
    if (static_cast<int32_t>(dtype) != number) continue;
    if (dtype == DType::kF32 || (table && dtype == DType::kBF16)) return dtype;
    if (!table && (dtype == DType::kF64 || dtype == DType::kI64)) return dtype;
    return Invalid(spec, absl::StrCat(wanted, ", got ", DTypeName(dtype)));
  }
  return Invalid(spec, absl::StrCat(wanted, ", got the unknown dtype ", number));
}

absl::StatusOr<Shape> VariableShape(const proto::ShardSpec& spec) {
  Shape shape;
  int64_t elements = 1;
  for (int64_t dim : spec.variable().shape().dims()) {
    if (spec.variable().has_hash() && shape.rank() == 0) {
      if (dim != kUnknownDim) {
        return Invalid(spec, absl::StrCat("a hash table has -1 as its number of rows, got ", dim));
      }
      shape.Append(dim);
      continue;
    }
    if (dim < (shape.rank() == 0 ? 0 : 1)) {
      return Invalid(spec, absl::StrCat("dimension ", shape.rank(), " is ", dim));
    }
    shape.Append(dim);
    if (__builtin_mul_overflow(elements, dim, &elements)) {
      return Invalid(spec, absl::StrCat("shape ", shape.ToString(), " has too many elements"));
    }
  }
  if (spec.variable().table() && shape.rank() < 1) {
    return Invalid(spec, "a table needs a dimension of rows, got a scalar");
  }
  return shape;
}

// The rows that shard `index` of `count` holds under "mod" and "hash".
int64_t ModRows(int64_t total, int64_t index, int64_t count) {
  return total <= index ? 0 : (total - index + count - 1) / count;
}

absl::Status CheckRows(const proto::ShardSpec& spec, int64_t total) {
  if (spec.count() < 1 || spec.index() < 0 || spec.index() >= spec.count()) {
    return Invalid(spec, absl::StrCat("wanted 0 <= index < count, got index ", spec.index(), " of ",
                                      spec.count()));
  }
  if (spec.variable().has_hash()) {
    if (spec.strategy() != "hash") {
      return Invalid(
          spec, absl::StrCat("a hash table has the strategy hash; got '", spec.strategy(), "'"));
    }
    if (spec.variable().table() && spec.rows() == 0 && spec.row_begin() == 0) {
      return absl::OkStatus();
    }
    return Invalid(spec, "a shard of a hash table is one of a table, and begins without rows");
  }
  if (spec.strategy() == "mod" || spec.strategy() == "hash") {
    const int64_t rows = ModRows(total, spec.index(), spec.count());
    if (spec.rows() == rows) return absl::OkStatus();
    return Invalid(spec, absl::StrCat("'", spec.strategy(), "' shard ", spec.index(), " of ",
                                      spec.count(), " of a variable of ", total, " rows has ", rows,
                                      " rows, the spec says ", spec.rows()));
  }
  if (spec.strategy() != "div" && !spec.strategy().empty()) {
    return Invalid(spec, absl::StrCat("unknown strategy '", spec.strategy(),
                                      "': known are div, mod and hash"));
  }
  if (spec.rows() < 0 || spec.row_begin() < 0 || spec.row_begin() > total ||
      spec.rows() > total - spec.row_begin()) {
    return Invalid(spec, absl::StrCat("rows ", spec.row_begin(), " and ", spec.rows(),
                                      " following are not within the variable's ", total));
  }
  if (spec.count() == 1 && spec.rows() != total) {
    return Invalid(
        spec, absl::StrCat("the only shard of a variable of ", total, " rows has ", spec.rows()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ShardLayout> ShardLayout::Create(const proto::ShardSpec& spec) {
  ShardLayout layout;
  ASSIGN_OR_RETURN(layout.dtype_, StoredDType(spec));
  ASSIGN_OR_RETURN(layout.variable_shape_, VariableShape(spec));
  const Shape& full = layout.variable_shape_;
  layout.shape_ = full;
  if (full.rank() == 0) {
    if (spec.count() != 1 || spec.index() != 0 || spec.row_begin() != 0 || spec.rows() > 1 ||
        spec.rows() < 0) {
      return Invalid(spec, "a scalar cannot be split into shards");
    }
    layout.rows_ = 1;
    return layout;
  }
  RETURN_IF_ERROR(CheckRows(spec, full.dim(0)));
  layout.hashed_ = spec.variable().has_hash();
  layout.rows_ = spec.rows();
  layout.shape_.set_dim(0, layout.rows_);
  for (int i = 1; i < full.rank(); ++i) {
    // With no rows the product of all dimensions says nothing about the others.
    if (__builtin_mul_overflow(layout.row_elements_, full.dim(i), &layout.row_elements_)) {
      return Invalid(spec, absl::StrCat("a row of shape ", full.ToString(), " is too large"));
    }
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(layout.rows_, layout.row_elements_, &bytes) ||
      __builtin_mul_overflow(bytes, static_cast<int64_t>(SizeOf(layout.dtype_)), &bytes) ||
      bytes > kMaxShardBytes || layout.row_elements_ > kMaxShardBytes / 64) {
    return Invalid(spec, absl::StrCat("shape ", layout.shape_.ToString(), " is too large"));
  }
  const bool mixed = spec.strategy() == "hash" && !layout.hashed_;
  const bool mod = spec.strategy() == "mod" || mixed;
  layout.first_ = mod ? spec.index() : spec.row_begin();
  layout.step_ = mod ? spec.count() : 1;
  if (mixed) layout.mix_.emplace(full.dim(0));
  return layout;
}

Shape ShardLayout::RowsShape(int64_t n) const {
  Shape shape = shape_;
  if (shape.rank() == 0) return Shape{n};
  shape.set_dim(0, n);
  return shape;
}

}  // namespace coxswain::ps
