// recall@K: how many of the K candidates that score highest are items of the list, over all of its
// items.
#include <algorithm>

#include "coordinator/model/metrics/metric_list.h"
#include "coordinator/model/metrics/ranked_lists.h"

namespace coxswain::model {
namespace {

class Recall : public ListMetric {
 public:
  explicit Recall(int64_t k) : k_(k) {}

 private:
  double OfList(absl::Span<const int64_t> places) const override {
    const auto end = std::lower_bound(places.begin(), places.end(), k_);
    return static_cast<double>(end - places.begin()) / static_cast<double>(places.size());
  }

  const int64_t k_;
};

}  // namespace

const job::MetricKind& RecallMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kRank, job::MetricKind::kIfNamed + 4},
      {job::PredictionKind::kOrder, job::MetricKind::kIfNamed + 1}};
  static constexpr job::MetricKind kKind = {
      .name = "recall@10",
      .higher_is_better = true,
      .has_k = true,
      .of = kOf,
      .make = [](int64_t k) -> std::unique_ptr<Metric> { return std::make_unique<Recall>(k); }};
  return kKind;
}

}  // namespace coxswain::model
