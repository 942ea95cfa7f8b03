// How often the more probable of two, or the most probable of several classes is the true one.
#include <algorithm>

#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class Accuracy : public Metric {
 public:
  void Add(const Measured& m) override {
    ForEachExample(m, [&](absl::Span<const float> row, float label, double weight) {
      if (m.classes == 1) {
        if ((row[0] > 0.5f) == (label > 0.5f)) correct_ += weight;
      } else if (std::max_element(row.begin(), row.end()) - row.begin() ==
                 static_cast<int64_t>(label)) {
        correct_ += weight;
      }
    });
  }
  double Value(double total) const override { return correct_ / total; }

 private:
  double correct_ = 0;
};

}  // namespace

const job::MetricKind& AccuracyMetric() {
  static constexpr job::MetricKind::Of kOf[] = {{job::PredictionKind::kProbability, 2},
                                                {job::PredictionKind::kClasses, 0}};
  static constexpr job::MetricKind kKind = {
      .name = "accuracy", .higher_is_better = true, .of = kOf, .make = MakeMetric<Accuracy>};
  return kKind;
}

}  // namespace coxswain::model
