// ndcg@K, the normalized discounted cumulative gain (Jarvelin and Kekalainen, 2002), every item of
// a list being as relevant as any other: with p_1 < p_2 < ... < p_n the places of the n items, from
// 0,
//   sum_{j: p_j < K} 1 / log2(p_j + 2)  /  sum_{j < min(n, K)} 1 / log2(j + 2)
// that is, over what it would be if the items came first. Of a query whose rows have the labels
// l_j, in the order of their scores:
//   sum_{j < K} (2^l_j - 1) / log2(j + 2)  /  the same in the order of the labels
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "coordinator/model/metrics/metric_list.h"
#include "coordinator/model/metrics/ranked_lists.h"

namespace coxswain::model {
namespace {

class Ndcg : public ListMetric {
 public:
  explicit Ndcg(int64_t k) : k_(k) {}

 private:
  double OfList(absl::Span<const int64_t> places) const override {
    double found = 0, best = 0;
    for (size_t j = 0; j < places.size() && static_cast<int64_t>(j) < k_; ++j) {
      best += 1 / std::log2(static_cast<double>(j) + 2);
      if (places[j] < k_) found += 1 / std::log2(static_cast<double>(places[j]) + 2);
    }
    return found / best;
  }

  double OfLabels(absl::Span<const float> labels) const override {
    std::vector<float> best(labels.begin(), labels.end());
    std::sort(best.begin(), best.end(), std::greater<float>());
    if (best.empty()) return 0;
    // Both gains over 2^highest, which is the same quotient: 2^label is no number from 1024.
    const double highest = std::max(0.0, static_cast<double>(best.front()));
    return Gain(labels, highest) / Gain(best, highest);
  }
  double Gain(absl::Span<const float> labels, double highest) const {
    double gain = 0;
    for (size_t j = 0; j < labels.size() && static_cast<int64_t>(j) < k_; ++j) {
      const double label = std::max(0.0, static_cast<double>(labels[j]));
      const double of_label = std::exp2(label - highest) - std::exp2(-highest);
      gain += of_label / std::log2(static_cast<double>(j) + 2);
    }
    return gain;
  }

  const int64_t k_;
};

}  // namespace

const job::MetricKind& NdcgMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kRank, job::MetricKind::kIfNamed + 0},
      {job::PredictionKind::kOrder, 0}};
  static constexpr job::MetricKind kKind = {
      .name = "ndcg@10",
      .higher_is_better = true,
      .has_k = true,
      .of = kOf,
      .make = [](int64_t k) -> std::unique_ptr<Metric> { return std::make_unique<Ndcg>(k); }};
  return kKind;
}

}  // namespace coxswain::model
