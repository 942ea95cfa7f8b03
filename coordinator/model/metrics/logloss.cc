// The mean of -log p, p being the probability that the model gave to what is true.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class LogLoss : public Metric {
 public:
  void Add(const Measured& m) override {
    ForEachExample(m, [&](absl::Span<const float> row, float label, double weight) {
      if (m.classes == 1) {
        sum_ += weight * LogLossOf(row[0], label);
        return;
      }
      const auto wanted = static_cast<int64_t>(label);
      if (wanted < 0 || wanted >= m.classes) return;
      const double p = row[static_cast<size_t>(wanted)];
      sum_ -= weight * std::log(p < 1e-7 ? 1e-7 : p);
    });
  }
  double Value(double total) const override { return sum_ / total; }

 private:
  double sum_ = 0;
};

}  // namespace

const job::MetricKind& LogLossMetric() {
  static constexpr job::MetricKind::Of kOf[] = {{job::PredictionKind::kProbability, 1},
                                                {job::PredictionKind::kClasses, 1}};
  static constexpr job::MetricKind kKind = {
      .name = "logloss", .higher_is_better = false, .of = kOf, .make = MakeMetric<LogLoss>};
  return kKind;
}

}  // namespace coxswain::model
