#include "runtime/data/stream/history_gather.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/status.h"
#include "runtime/data/columns.h"
#include "runtime/data/permutation.h"
#include "runtime/data/stream/stream_options.h"

namespace coxswain::data {

absl::Status HistoryGather::ReadRow(size_t row) {
  GroupFile::Extent extent;
  RETURN_IF_ERROR(file.ReadExtents(rows[row].group, {&extent, 1}));
  int64_t from = 0, size = extent.size;
  if (ordered) {
    size = rows[row].before;
    if (most > 0) from = std::max<int64_t>(0, size - most);
    size -= from;
  }
  if (size > bytes / static_cast<int64_t>(sizeof(int64_t))) {
    return absl::ResourceExhaustedError(
        absl::StrCat("feature ", feature, ": a group has ", extent.size,
                     " values, which do not fit dataset.memory (", BytesText(bytes),
                     "): wanted a larger one, or a history with by and max_values, of which only "
                     "the last values ",
                     "are read"));
  }
  group_.resize(static_cast<size_t>(size));
  RETURN_IF_ERROR(file.ReadValues(extent, from, absl::MakeSpan(group_)));
  if (sorts) std::sort(group_.begin(), group_.end());
  if (own_of_queries != nullptr) {
    std::erase_if(group_, [&](int64_t value) {
      return own_of_queries->Has(static_cast<int64_t>(row), value);
    });
  } else if (own != nullptr) {
    const auto [first, last] = std::equal_range(group_.begin(), group_.end(), own[row]);
    group_.erase(first, last);
  }
  if (ordered || most == 0 || static_cast<int64_t>(group_.size()) <= most) {
    all_.insert(all_.end(), group_.begin(), group_.end());
    return absl::OkStatus();
  }
  SampleIndices(sample_key(static_cast<int64_t>(row)), static_cast<uint32_t>(group_.size()),
                static_cast<uint32_t>(most), [&](uint32_t at) { all_.push_back(group_[at]); });
  return absl::OkStatus();
}

absl::Status HistoryGather::CheckBatch(size_t row) const {
  if (all_.size() <= static_cast<size_t>(bytes) / sizeof(int64_t)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("feature ", feature, ": the first ", row + 1, " of a batch's ", rows.size(),
                   " examples have ", all_.size(), " values, which do not fit dataset.memory (",
                   BytesText(bytes),
                   "): wanted a history with max_values, or smaller ones, a smaller batch, or "
                   "a larger dataset.memory"));
}

absl::Status HistoryGather::Fill(Tensor* values, Tensor* offsets) {
  std::vector<int64_t> sizes;
  for (size_t row = 0; row < rows.size(); ++row) {
    const size_t before = all_.size();
    RETURN_IF_ERROR(ReadRow(row));
    RETURN_IF_ERROR(CheckBatch(row));
    sizes.push_back(static_cast<int64_t>(all_.size() - before));
    if (all_.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) break;
  }
  sizes.resize(rows.size(), 0);
  RETURN_IF_ERROR(FillOffsets(
      feature, static_cast<int64_t>(rows.size()),
      [&](int64_t i) { return sizes[static_cast<size_t>(i)]; }, offsets));
  *values = Tensor(DType::kI64, Shape{static_cast<int64_t>(all_.size())});
  std::copy(all_.begin(), all_.end(), values->mutable_data<int64_t>());
  return absl::OkStatus();
}

}  // namespace coxswain::data
