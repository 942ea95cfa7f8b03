#include "coordinator/model/slices.h"

#include <algorithm>

#include "coordinator/model/measured_copy.h"
#include "coordinator/model/metrics.h"

namespace coxswain::model {

Slices::Slices(const std::vector<job::MetricSpec>& metrics, const std::vector<int64_t>& values)
    : metrics_(metrics) {
  for (const int64_t count : values) features_.emplace_back().end = std::min(count, kMostValues);
}

Slices::~Slices() = default;

void Slices::Add(const Measured& measured, absl::Span<const absl::Span<const int64_t>> ids) {
  for (size_t f = 0; f < std::min(features_.size(), ids.size()); ++f) {
    std::map<int64_t, MeasuredCopy> parts;
    for (size_t i = 0; i < ids[f].size(); ++i) {
      const auto [part, is_new] = parts.try_emplace(std::min(ids[f][i], features_[f].end));
      if (is_new) part->second.Restart(measured);
      part->second.Take(measured, i);
    }
    for (const auto& [id, part] : parts) {
      std::unique_ptr<MetricAccumulator>& slice = features_[f].slices[id];
      if (slice == nullptr) slice = std::make_unique<MetricAccumulator>(metrics_);
      slice->Add(part.View(), static_cast<int64_t>(part.size()));
    }
  }
}

std::vector<Slices::Slice> Slices::Compute() const {
  std::vector<Slice> all;
  for (size_t f = 0; f < features_.size(); ++f) {
    for (const auto& [id, slice] : features_[f].slices) {
      all.push_back({f, id < features_[f].end ? std::optional<int64_t>(id) : std::nullopt,
                     slice->examples(), slice->Compute()});
    }
  }
  return all;
}

}  // namespace coxswain::model
