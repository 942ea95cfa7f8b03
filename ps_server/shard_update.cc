// Checking and applying updates of a shard.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "ps_server/row_copy.h"
#include "ps_server/shard.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

bool IsGradient(Update::Kind kind) {
  return kind == Update::Kind::kDense || kind == Update::Kind::kSparse;
}

bool HasIds(Update::Kind kind) {
  return kind == Update::Kind::kSparse || kind == Update::Kind::kScatterAdd;
}

// Integers wrap, as an atomic counter does.
template <typename T>
void AddTo(T* to, const T* values, int64_t n) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<T>(static_cast<Sum>(to[i]) + static_cast<Sum>(values[i]));
  }
}

template <typename T>
void AddRows(const RowBlock<T>& block, const int64_t* ids, int64_t n, const T* values) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = ids == nullptr ? i : ids[i];
    AddTo(block.parts[0] + row * block.stride, values + i * block.width, block.width);
  }
}

}  // namespace

absl::Status Shard::Validate(const Update& update) const {
  if (update.kind > Update::Kind::kScatterAdd) {
    return Invalid(absl::StrCat("unknown kind of update ", static_cast<int>(update.kind)));
  }
  if (IsGradient(update.kind) && optimizer_.kind() == OptimizerKind::kNone) {
    return Invalid("got a gradient, but the variable has no optimizer");
  }
  const DType dtype = layout_.dtype();
  if (!HasIds(update.kind)) return CheckValues(update.values, dtype, layout_.shape());
  if (layout_.shape().rank() == 0) return Invalid("got an update of rows, but it is a scalar");
  RETURN_IF_ERROR(CheckIdTensor(update.ids));
  return CheckValues(update.values, dtype, layout_.RowsShape(update.ids.num_elements()));
}

void Shard::ApplySegment(absl::Span<const Update* const> updates) {
  const bool gradient = std::any_of(updates.begin(), updates.end(),
                                    [](const Update* u) { return IsGradient(u->kind); });
  const int64_t t = gradient_steps_ + 1;
  for (const Update* update : updates) {
    const bool some = HasIds(update->kind) && !optimizer_.SparseMovesAllRows();
    const int64_t* ids = some ? update->ids.data<int64_t>() : nullptr;
    const int64_t n = some ? update->ids.num_elements() : rows();
    PrepareChange(ids, n);
    switch (layout_.dtype()) {
      case DType::kF32:
        ApplyOne<float>(*update, t);
        break;
      case DType::kF64:
        ApplyOne<double>(*update, t);
        break;
      case DType::kI64:
        ApplyOne<int64_t>(*update, t);
        break;
      default:
        COX_CHECK(false, "a layout of ", DTypeName(layout_.dtype()));
    }
    if (some) {
      Touch(ids, n);
    } else {
      TouchRange(0, n);
    }
  }
  ++applied_;
  if (gradient) ++gradient_steps_;
}

void Shard::Touch(const int64_t* ids, int64_t n) {
  if (touched_ < 0) return;
  const PartPlace at = Place(touched_);
  SetAt(at.data, at.stride, ids, n, applied_ + 1);
}

void Shard::TouchRange(int64_t begin, int64_t n) {
  if (touched_ < 0) return;
  const PartPlace at = Place(touched_);
  const int64_t number = applied_ + 1;
  for (int64_t r = begin; r < begin + n; ++r) std::memcpy(at.Row(r), &number, sizeof(number));
}

template <typename T>
RowBlock<T> Shard::Block() const {
  RowBlock<T> block;
  for (int p = 0; p <= optimizer_.slots(); ++p) {
    const PartPlace at = Place(p);
    block.parts[static_cast<size_t>(p)] = reinterpret_cast<T*>(at.data);
    block.stride = static_cast<int64_t>(at.stride / sizeof(T));
  }
  block.width = layout_.row_elements();
  return block;
}

template <typename T>
void Shard::ApplyOne(const Update& update, int64_t t) {
  const T* values = update.values.data<T>();
  const int64_t rows = layout_.rows();
  switch (update.kind) {
    case Update::Kind::kDense:
      if constexpr (std::is_floating_point_v<T>) ApplyDense(values, t);
      return;
    case Update::Kind::kSparse:
      if constexpr (std::is_floating_point_v<T>) {
        ApplySparse(update.ids.data<int64_t>(), update.ids.num_elements(), values, t);
      }
      return;
    case Update::Kind::kAssign: {
      const RowBlock<T> block = Block<T>();
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(values + r * block.width, block.width, block.parts[0] + r * block.stride);
      }
      return;
    }
    case Update::Kind::kAssignAdd:
      return AddRows(Block<T>(), nullptr, rows, values);
    case Update::Kind::kScatterAdd:
      return AddRows(Block<T>(), update.ids.data<int64_t>(), update.ids.num_elements(), values);
  }
}

template <typename T>
void Shard::ApplyDense(const T* gradient, int64_t t) {
  RowBlock<T> block = Block<T>();
  int64_t rows = layout_.rows();
  if (!table()) {  // contiguous: all of it is one long row
    block.width *= rows;
    rows = 1;
  }
  optimizer_.Apply(block, nullptr, rows, gradient, t);
}

template <typename T>
void Shard::ApplySparse(const int64_t* ids, int64_t n, const T* gradient, int64_t t) {
  if (!optimizer_.SparseMovesAllRows()) {
    optimizer_.Apply(Block<T>(), ids, n, gradient, t);
    return;
  }
  // The gradient of the rows that are not named is zero; rows named twice add up.
  Tensor dense = Tensor::Zeros(layout_.dtype(), layout_.shape());
  RowBlock<T> sum;
  sum.parts[0] = dense.mutable_data<T>();
  sum.stride = sum.width = layout_.row_elements();
  AddRows(sum, ids, n, gradient);
  ApplyDense(dense.data<T>(), t);
}

}  // namespace coxswain
