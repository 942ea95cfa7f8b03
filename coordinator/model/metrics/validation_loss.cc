// The mean loss of the pairs of words that training did not see.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class ValidationLoss : public Metric {
 public:
  void Add(const Measured& m) override { sum_ += m.loss; }
  double Value(double pairs) const override { return sum_ / pairs; }

 private:
  double sum_ = 0;
};

}  // namespace

const job::MetricKind& ValidationLossMetric() {
  static constexpr job::MetricKind kKind = {
      .name = "validation_loss", .higher_is_better = false, .make = MakeMetric<ValidationLoss>};
  return kKind;
}

}  // namespace coxswain::model
