// The expected calibration error (Naeini et al., 2015): probabilities are put into ten bins of one
// width, [0, 0.1), ..., [0.9, 1]; the mean, by the weight of a bin, of
//   |mean probability - mean label|
// of each bin. Of several classes the probability is that of the likeliest one, and the label
// whether it is the true one.
#include <algorithm>

#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

constexpr int kBins = 10;

class CalibrationError : public Metric {
 public:
  void Add(const Measured& m) override {
    ForEachExample(m, [&](absl::Span<const float> row, float label, double weight) {
      if (m.classes == 1) {
        AddOne(row[0], static_cast<double>(label), weight);
        return;
      }
      const auto best = std::max_element(row.begin(), row.end());
      AddOne(*best, best - row.begin() == static_cast<int64_t>(label) ? 1 : 0, weight);
    });
  }
  double Value(double total) const override {
    double sum = not_numbers_ ? std::nan("") : 0;
    for (const double off : off_) sum += std::abs(off);
    return sum / total;
  }

 private:
  void AddOne(float probability, double label, double weight) {
    if (std::isnan(probability)) {
      not_numbers_ = true;
      return;
    }
    const auto p = static_cast<double>(probability);
    const int bin = std::clamp(static_cast<int>(p * kBins), 0, kBins - 1);
    off_[bin] += weight * (p - label);
  }

  double off_[kBins] = {};  // by bin: what is promised less what came, by weight
  bool not_numbers_ = false;
};

}  // namespace

const job::MetricKind& CalibrationErrorMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kProbability, job::MetricKind::kIfNamed + 3},
      {job::PredictionKind::kClasses, job::MetricKind::kIfNamed + 1}};
  static constexpr job::MetricKind kKind = {.name = "calibration_error",
                                            .higher_is_better = false,
                                            .of = kOf,
                                            .make = MakeMetric<CalibrationError>};
  return kKind;
}

}  // namespace coxswain::model
