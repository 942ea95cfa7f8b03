#include "coordinator/model/metrics/metric_list.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace coxswain::job {

const std::vector<const MetricKind*>& AllMetricKinds() {
#define COX_KIND(file, function) &model::function(),
  static const auto* const all = new std::vector<const MetricKind*>{COX_METRICS(COX_KIND)};
#undef COX_KIND
  return *all;
}

const MetricKind* FindMetricKind(absl::string_view name) {
  for (const MetricKind* kind : AllMetricKinds()) {
    if (name == kind->name) return kind;
  }
  return nullptr;
}

namespace {

// Those whose place is below `end`, by their places.
std::vector<const MetricKind*> MetricsBelow(int end, PredictionKind prediction) {
  std::vector<std::pair<int, const MetricKind*>> found;
  for (const MetricKind* kind : AllMetricKinds()) {
    for (const MetricKind::Of& of : kind->of) {
      if (of.prediction == prediction && of.place < end) found.emplace_back(of.place, kind);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const MetricKind*> kinds;
  for (const auto& [place, kind] : found) kinds.push_back(kind);
  return kinds;
}

}  // namespace

std::vector<const MetricKind*> MetricsOf(PredictionKind prediction) {
  return MetricsBelow(std::numeric_limits<int>::max(), prediction);
}

std::vector<const MetricKind*> DefaultMetrics(PredictionKind prediction) {
  return MetricsBelow(MetricKind::kIfNamed, prediction);
}

}  // namespace coxswain::job
