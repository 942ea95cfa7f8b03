// hit_rate@K: how often the true item is among the K that score highest.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class HitRate : public Metric {
 public:
  explicit HitRate(int64_t k) : k_(k) {}

  void Add(const Measured& m) override {
    for (size_t i = 0; i < m.ranks.size(); ++i) {
      left_out_ = left_out_ || m.ranks[i] < 0;
      if (m.ranks[i] < 0) continue;
      if (m.ranks[i] < k_) hits_ += m.weight_of(i);
      weights_ += m.weight_of(i);
    }
  }
  double Value(double) const override { return hits_ / weights_; }
  std::string WhyUndefined() const override {
    return left_out_ && weights_ == 0 ? kNothingRanked : "";
  }

 private:
  const int64_t k_;
  double hits_ = 0, weights_ = 0;
  bool left_out_ = false;
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
