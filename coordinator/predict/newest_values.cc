#include "coordinator/predict/newest_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/data/spec_check.h"

namespace coxswain::predict {

NewestValues::NewestValues(const job::JobSpec& job, absl::Span<const data::ColumnSpec> columns) {
  const auto find = [&](const std::string& name) {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const data::ColumnSpec& c) { return c.name == name; });
    return static_cast<size_t>(found - columns.begin());
  };
  for (const proto::FeatureSpec& feature : job.dataset.features()) {
    if (!data::IsHistory(feature) || feature.by().empty() || feature.max_values() == 0) continue;
    const Limit limit = {find(absl::StrCat(feature.name(), ".values")),
                         find(absl::StrCat(feature.name(), ".offsets")), feature.max_values()};
    // The model may not use it.
    if (std::max(limit.values, limit.offsets) < columns.size()) limits_.push_back(limit);
  }
}

data::Batch NewestValues::Of(data::Batch batch) const {
  for (const Limit& limit : limits_) {
    const int64_t rows = batch[limit.offsets].dim(0) - 1;
    const auto* const offsets = batch[limit.offsets].data<int32_t>();
    Tensor kept(DType::kI32, Shape{rows + 1});
    int32_t* const ends = kept.mutable_data<int32_t>();
    ends[0] = 0;
    for (int64_t i = 0; i < rows; ++i) {
      ends[i + 1] = ends[i] + static_cast<int32_t>(
                                  std::min<int64_t>(limit.most, offsets[i + 1] - offsets[i]));
    }
    if (ends[rows] == offsets[rows] - offsets[0]) continue;
    Tensor values(DType::kI64, Shape{ends[rows]});
    const auto* const all = batch[limit.values].data<int64_t>();
    for (int64_t i = 0; i < rows; ++i) {
      std::copy(all + offsets[i + 1] - (ends[i + 1] - ends[i]), all + offsets[i + 1],
                values.mutable_data<int64_t>() + ends[i]);
    }
    batch[limit.values] = std::move(values);
    batch[limit.offsets] = std::move(kept);
  }
  return batch;
}

}  // namespace coxswain::predict
