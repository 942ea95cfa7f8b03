// F1: the harmonic mean of precision and recall of "probability above 1/2":
//   2 TP / (2 TP + FP + FN)
// 0 where nothing that is positive was found; not defined where there is nothing positive, neither
// among the labels nor among the predictions.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class F1 : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.classes != 1) return;
    ForEachExample(m, [&](absl::Span<const float> row, float label, double weight) {
      const bool said = row[0] > 0.5f, is = label > 0.5f;
      if (said && is) found_ += weight;
      if (said != is) wrong_ += weight;
    });
  }
  double Value(double) const override { return 2 * found_ / (2 * found_ + wrong_); }
  std::string WhyUndefined() const override {
    return found_ + wrong_ > 0 ? "" : "all labels and predictions are 0";
  }

 private:
  double found_ = 0, wrong_ = 0;
};

}  // namespace

const job::MetricKind& F1Metric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kProbability, job::MetricKind::kIfNamed + 1}};
  static constexpr job::MetricKind kKind = {
      .name = "f1", .higher_is_better = true, .of = kOf, .make = MakeMetric<F1>};
  return kKind;
}

}  // namespace coxswain::model
