#include "runtime/data/columns.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/status.h"
#include "runtime/data/list_key.h"
#include "runtime/data/permutation.h"

namespace coxswain::data {
namespace {

ColumnSpec Spec(std::string name, DType dtype) {
  return {std::move(name), {dtype, Shape{kUnknownDim}}};
}

}  // namespace

void DescribeRagged(const std::string& name, std::vector<ColumnSpec>* specs) {
  specs->push_back(Spec(name + ".values", DType::kI64));
  specs->push_back(Spec(name + ".offsets", DType::kI32));
}

Tensor NewNumbers(int64_t rows, int64_t width) {
  return Tensor(DType::kF32, width > 0 ? Shape{rows, width} : Shape{rows});
}

void NumericColumn::Describe(std::vector<ColumnSpec>* specs) const {
  specs->push_back(Spec(name_, DType::kF32));
  if (width_ > 0) specs->back().type.shape = Shape{kUnknownDim, width_};
}

absl::Status NumericColumn::Gather(const BatchRows& rows, Batch* batch) const {
  Tensor tensor = NewNumbers(rows.size(), width_);
  float* out = tensor.mutable_data<float>();
  if (width_ == 0) {
    for (const uint32_t row : rows.rows) *out++ = values_[row];
  }
  for (size_t i = 0; i < rows.rows.size() && width_ > 0; ++i) {
    out = std::copy_n(values_.data() + rows.rows[i] * width_, width_, out);
  }
  batch->push_back(std::move(tensor));
  return absl::OkStatus();
}

void ExampleIdColumn::Describe(std::vector<ColumnSpec>* specs) const {
  specs->push_back(Spec(name_, DType::kI64));
}

absl::Status ExampleIdColumn::Gather(const BatchRows& rows, Batch* batch) const {
  const bool queries = !rows.query_ends.empty();  // then there is a number for each of them
  Tensor tensor(DType::kI64,
                Shape{queries ? static_cast<int64_t>(rows.numbers.size()) : rows.size()});
  int64_t* out = tensor.mutable_data<int64_t>();
  if (rows.numbers.empty()) {
    std::iota(out, out + rows.size(), rows.begin);
  } else {
    std::copy(rows.numbers.begin(), rows.numbers.end(), out);
  }
  batch->push_back(std::move(tensor));
  return absl::OkStatus();
}

void IdColumn::Describe(std::vector<ColumnSpec>* specs) const {
  specs->push_back(Spec(name_, DType::kI64));
}

absl::Status IdColumn::Gather(const BatchRows& rows, Batch* batch) const {
  Tensor tensor(DType::kI64, Shape{rows.size()});
  int64_t* out = tensor.mutable_data<int64_t>();
  ids_.Visit([&](const auto* ids) {
    for (const uint32_t row : rows.rows) *out++ = ids[row];
  });
  batch->push_back(std::move(tensor));
  return absl::OkStatus();
}

void IdColumn::Count(absl::Span<const uint32_t> rows, absl::Span<int64_t> counts) const {
  ids_.Visit([&](const auto* ids) {
    for (const uint32_t row : rows) ++counts[static_cast<size_t>(ids[row])];
  });
}

void RaggedColumn::Describe(std::vector<ColumnSpec>* specs) const {
  DescribeRagged(name_, specs);
  if (weighted_) specs->push_back(Spec(name_ + ".weights", DType::kF32));
}

template <typename Id>
void RaggedColumn::Fill(const BatchRows& rows, const int32_t* offsets, const Id* ids,
                        int64_t* values, float* weights) const {
  const float* all_weights = lists_.weights.data();
  for (int64_t i = 0; i < rows.size(); ++i) {
    const uint32_t row = rows.rows[static_cast<size_t>(i)];
    const int64_t first = lists_.offsets[row];
    const int64_t length = lists_.offsets[row + 1] - first;
    const int64_t taken = offsets[i + 1] - offsets[i];
    if (taken == length) {
      std::copy(ids + first, ids + first + length, values);
      values += length;
      if (weighted_) weights = std::copy_n(all_weights + first, length, weights);
      continue;
    }
    const uint64_t key = rows.training
                             ? rows.SampleKey(i, index_)
                             : ListKey(rows.epoch_key, index_, ids, static_cast<size_t>(first),
                                       static_cast<size_t>(length));
    SampleIndices(key, static_cast<uint32_t>(length), static_cast<uint32_t>(taken),
                  [&](uint32_t index) {
                    *values++ = ids[first + index];
                    if (weighted_) *weights++ = all_weights[first + index];
                  });
  }
}

absl::Status RaggedColumn::Gather(const BatchRows& rows, Batch* batch) const {
  Tensor offsets;
  RETURN_IF_ERROR(FillOffsets(
      name_, rows.size(),
      [&](int64_t i) {
        const uint32_t row = rows.rows[static_cast<size_t>(i)];
        const int64_t length = lists_.offsets[row + 1] - lists_.offsets[row];
        return max_values_ > 0 ? std::min(length, max_values_) : length;
      },
      &offsets));
  const int32_t* ends = offsets.data<int32_t>();
  const int64_t total = ends[rows.size()];
  Tensor values(DType::kI64, Shape{total});
  Tensor weights;
  if (weighted_) weights = Tensor(DType::kF32, Shape{total});
  lists_.ids.Visit([&](const auto* ids) {
    Fill(rows, ends, ids, values.mutable_data<int64_t>(),
         weighted_ ? weights.mutable_data<float>() : nullptr);
  });
  batch->push_back(std::move(values));
  batch->push_back(std::move(offsets));
  if (weighted_) batch->push_back(std::move(weights));
  return absl::OkStatus();
}

void RaggedColumn::Count(absl::Span<const uint32_t> rows, absl::Span<int64_t> counts) const {
  lists_.ids.Visit([&](const auto* ids) {
    for (const uint32_t row : rows) {
      for (int64_t i = lists_.offsets[row]; i < lists_.offsets[row + 1]; ++i) {
        ++counts[static_cast<size_t>(ids[i])];
      }
    }
  });
}

}  // namespace coxswain::data
