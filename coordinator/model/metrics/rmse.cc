// The root of the mean squared error.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class Rmse : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.classes != 1) return;
    ForEachExample(m, [&](absl::Span<const float> row, float label, double weight) {
      squares_ += weight * ((row[0] - label) * static_cast<double>(row[0] - label));
    });
  }
  double Value(double total) const override { return std::sqrt(squares_ / total); }

 private:
  double squares_ = 0;
};

}  // namespace

const job::MetricKind& RmseMetric() {
  static constexpr job::MetricKind::Of kOf[] = {{job::PredictionKind::kNumber, 0}};
  static constexpr job::MetricKind kKind = {
      .name = "rmse", .higher_is_better = false, .of = kOf, .make = MakeMetric<Rmse>};
  return kKind;
}

}  // namespace coxswain::model
