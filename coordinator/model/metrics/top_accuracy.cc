// accuracy@K: how often the true class is among the K most probable ones: fewer than K classes are
// more probable.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class TopAccuracy : public Metric {
 public:
  explicit TopAccuracy(int64_t k) : k_(k) {}

  void Add(const Measured& m) override {
    ForEachExample(m, [&](absl::Span<const float> row, float label, double weight) {
      const auto wanted = static_cast<int64_t>(label);
      if (wanted < 0 || wanted >= m.classes) return;
      const float own = row[static_cast<size_t>(wanted)];
      int64_t above = std::isnan(own) ? m.classes : 0;
      for (const float other : row) above += other > own || std::isnan(other) ? 1 : 0;
      if (above < k_) right_ += weight;
    });
  }
  double Value(double total) const override { return right_ / total; }

 private:
  const int64_t k_;
  double right_ = 0;
};

}  // namespace

const job::MetricKind& TopAccuracyMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kClasses, job::MetricKind::kIfNamed}};
  static constexpr job::MetricKind kKind = {.name = "accuracy@5",
                                            .higher_is_better = true,
                                            .has_k = true,
                                            .of = kOf,
                                            .make = [](int64_t k) -> std::unique_ptr<Metric> {
                                              return std::make_unique<TopAccuracy>(k);
                                            }};
  return kKind;
}

}  // namespace coxswain::model
