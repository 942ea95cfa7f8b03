// hit_rate@K: how often the true item is among the K that score highest.
#include <algorithm>

#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class HitRate : public Metric {
 public:
  explicit HitRate(int64_t k) : k_(k) {}

  void Add(const Measured& m) override {
    hits_ += std::count_if(m.ranks.begin(), m.ranks.end(), [&](int64_t r) { return r < k_; });
  }
  double Value(int64_t examples) const override {
    return static_cast<double>(hits_) / static_cast<double>(examples);
  }

 private:
  const int64_t k_;
  int64_t hits_ = 0;
};

}  // namespace

const job::MetricKind& HitRateMetric() {
  static constexpr job::MetricKind::Of kOf[] = {{job::PredictionKind::kRank, 0}};
  static constexpr job::MetricKind kKind = {
      .name = "hit_rate@10",
      .higher_is_better = true,
      .has_k = true,
      .of = kOf,
      .make = [](int64_t k) -> std::unique_ptr<Metric> { return std::make_unique<HitRate>(k); }};
  return kKind;
}

}  // namespace coxswain::model
