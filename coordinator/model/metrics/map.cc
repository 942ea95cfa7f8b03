// map@K, the mean average precision: with p_1 < p_2 < ... < p_n the places of the n items of a
// list, from 0, the mean over all lists of
//   sum_{j: p_j < K} j / (p_j + 1)  /  min(n, K)
// j / (p_j + 1) being the precision of the list down to its j-th item.
#include <algorithm>

#include "coordinator/model/metrics/metric_list.h"
#include "coordinator/model/metrics/ranked_lists.h"

namespace coxswain::model {
namespace {

class Map : public ListMetric {
 public:
  explicit Map(int64_t k) : k_(k) {}

 private:
  double OfList(absl::Span<const int64_t> places) const override {
    double sum = 0;
    for (size_t j = 0; j < places.size() && places[j] < k_; ++j) {
      sum += static_cast<double>(j + 1) / static_cast<double>(places[j] + 1);
    }
    return sum / static_cast<double>(std::min(k_, static_cast<int64_t>(places.size())));
  }

  const int64_t k_;
};

}  // namespace

const job::MetricKind& MapMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kRank, job::MetricKind::kIfNamed + 2},
      {job::PredictionKind::kOrder, 1}};
  static constexpr job::MetricKind kKind = {
      .name = "map@10",
      .higher_is_better = true,
      .has_k = true,
      .of = kOf,
      .make = [](int64_t k) -> std::unique_ptr<Metric> { return std::make_unique<Map>(k); }};
  return kKind;
}

}  // namespace coxswain::model
