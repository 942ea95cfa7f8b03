// The mean absolute error: the mean of |prediction - label|.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class Mae : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.classes != 1) return;
    ForEachExample(m, [&](absl::Span<const float> row, float label, double weight) {
      sum_ += weight * std::abs(static_cast<double>(row[0]) - static_cast<double>(label));
    });
  }
  double Value(double total) const override { return sum_ / total; }

 private:
  double sum_ = 0;
};

}  // namespace

const job::MetricKind& MaeMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kNumber, job::MetricKind::kIfNamed}};
  static constexpr job::MetricKind kKind = {
      .name = "mae", .higher_is_better = false, .of = kOf, .make = MakeMetric<Mae>};
  return kKind;
}

}  // namespace coxswain::model
