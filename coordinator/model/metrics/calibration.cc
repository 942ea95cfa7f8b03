// The sum of the probabilities over the sum of the labels (He et al., 2014): 1 where as much is
// promised as comes, above 1 where the model promises too much. Not defined where all labels are 0.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class Calibration : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.classes != 1) return;
    ForEachExample(m, [&](absl::Span<const float> row, float label, double weight) {
      promised_ += weight * static_cast<double>(row[0]);
      came_ += weight * static_cast<double>(label);
    });
    examples_ += m.label.size();
  }
  double Value(double) const override { return came_ > 0 ? promised_ / came_ : std::nan(""); }
  std::string WhyUndefined() const override {
    return examples_ == 0 || came_ > 0 ? "" : "all labels are 0";
  }

 private:
  double promised_ = 0, came_ = 0;
  size_t examples_ = 0;
};

}  // namespace

const job::MetricKind& CalibrationMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kProbability, job::MetricKind::kIfNamed + 2}};
  static constexpr job::MetricKind kKind = {.name = "calibration",
                                            .higher_is_better = false,
                                            .compares = false,  // it is best at 1
                                            .of = kOf,
                                            .make = MakeMetric<Calibration>};
  return kKind;
}

}  // namespace coxswain::model
