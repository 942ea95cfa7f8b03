#include "runtime/data/history_windows.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::data {

HistoryWindows::HistoryWindows(absl::Span<const int32_t> group_of, absl::Span<const double> order,
                               absl::Span<const uint32_t> training_rows, int64_t length)
    : sorted_(training_rows.begin(), training_rows.end()) {
  std::sort(sorted_.begin(), sorted_.end(), [&](uint32_t a, uint32_t b) {
    if (group_of[a] != group_of[b]) return group_of[a] < group_of[b];
    return order[a] != order[b] ? order[a] < order[b] : a < b;
  });
  const auto targets = static_cast<size_t>(length);
  std::vector<Range> ranges;
  for (size_t begin = 0, end = 0; begin < sorted_.size(); begin = end) {
    const int32_t group = group_of[sorted_[begin]];
    while (end < sorted_.size() && group_of[sorted_[end]] == group) ++end;
    targets_ += static_cast<int64_t>(end - begin) - 1;
    for (size_t last = end - 1; last > begin;) {
      const size_t first = last - std::min(targets, last - begin);
      ranges.push_back({first, last - first + 1});
      last = first;
    }
  }
  const auto last_row = [this](const Range& r) { return sorted_[r.begin + r.size - 1]; };
  std::sort(ranges.begin(), ranges.end(),
            [&](const Range& a, const Range& b) { return last_row(a) < last_row(b); });
  last_rows_.reserve(ranges.size());
  for (const Range& range : ranges) last_rows_.push_back(last_row(range));
  ranges_ = std::move(ranges);
}

absl::Span<const uint32_t> HistoryWindows::Of(uint32_t last_row) const {
  const auto found = std::lower_bound(last_rows_.begin(), last_rows_.end(), last_row);
  const Range& range = ranges_[static_cast<size_t>(found - last_rows_.begin())];
  return absl::MakeConstSpan(sorted_).subspan(range.begin, range.size);
}

absl::Status TargetColumn::GatherValues(const BatchRows& rows, Batch* batch) const {
  const auto of = [&](int64_t i) { return windows_.Of(rows.rows[static_cast<size_t>(i)]); };
  Tensor offsets;
  RETURN_IF_ERROR(FillOffsets(
      name_, rows.size(), [&](int64_t i) { return static_cast<int64_t>(of(i).size()) - 1; },
      &offsets));
  Tensor values(DType::kI64, Shape{offsets.data<int32_t>()[rows.size()]});
  int64_t* out = values.mutable_data<int64_t>();
  for (int64_t i = 0; i < rows.size(); ++i) {
    absl::Span<const uint32_t> window = of(i);
    window.remove_suffix(1);
    for (const uint32_t row : window) *out++ = own_->ids()[row];
  }
  batch->push_back(std::move(values));
  batch->push_back(std::move(offsets));
  return absl::OkStatus();
}

void TargetColumn::Describe(std::vector<ColumnSpec>* specs) const {
  const std::string next = absl::StrCat(name_, ".next");
  specs->push_back({next, {DType::kI64, Shape{kUnknownDim}}});
  specs->push_back({absl::StrCat(next, ".window"), {DType::kI32, Shape{kUnknownDim}}});
  if (weights_ == nullptr) return;
  specs->push_back({absl::StrCat(next, ".weight"), {DType::kF32, Shape{kUnknownDim}}});
}

absl::Status TargetColumn::Gather(const BatchRows& rows, Batch* batch) const {
  int64_t targets = 0;  // GatherValues has refused too many
  for (const uint32_t row : rows.rows) {
    targets += static_cast<int64_t>(windows_.Of(row).size()) - 1;
  }
  Tensor next(DType::kI64, Shape{targets}), window_of(DType::kI32, Shape{targets});
  Tensor weights(DType::kF32, Shape{weights_ == nullptr ? 0 : targets});
  int64_t* ids = next.mutable_data<int64_t>();
  int32_t* numbers = window_of.mutable_data<int32_t>();
  float* weight = weights.mutable_data<float>();
  for (int64_t i = 0; i < rows.size(); ++i) {
    absl::Span<const uint32_t> window = windows_.Of(rows.rows[static_cast<size_t>(i)]);
    window.remove_prefix(1);
    for (const uint32_t row : window) {
      *ids++ = own_->ids()[row];
      *numbers++ = static_cast<int32_t>(i);
      if (weights_ != nullptr) *weight++ = weights_->value(row);
    }
  }
  batch->push_back(std::move(next));
  batch->push_back(std::move(window_of));
  if (weights_ != nullptr) batch->push_back(std::move(weights));
  return absl::OkStatus();
}

}  // namespace coxswain::data
