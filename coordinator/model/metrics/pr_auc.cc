// The area under the curve of precision over recall, as the average precision (as scikit-learn's
// average_precision_score; no line is drawn between points, which would be too good):
//   sum_t (R_t - R_{t-1}) P_t
// over the scores t from the highest on, P_t and R_t being the precision and the recall of "scores
// t or more". Examples of one score come together. Not defined without positive labels, and of
// scores that are no numbers.
#include <algorithm>

#include "coordinator/model/metrics/auc.h"
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class PrAuc : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.classes != 1) return;
    for (size_t i = 0; i < m.label.size(); ++i) {
      scored_.push_back(ScoredOf(m, i));
      if (m.label[i] > 0.5f) positives_ += m.weight_of(i);
    }
  }
  double Value(double) const override {
    for (const ScoredExample& example : scored_) {
      if (std::isnan(example.score)) return std::nan("");
    }
    std::vector<ScoredExample> sorted = scored_;
    std::sort(sorted.begin(), sorted.end(),
              [](const ScoredExample& a, const ScoredExample& b) { return a.score > b.score; });
    double found = 0, taken = 0, area = 0;
    for (size_t i = 0; i < sorted.size();) {
      const float score = sorted[i].score;
      double positives = 0;
      for (; i < sorted.size() && sorted[i].score == score; ++i) {
        taken += static_cast<double>(sorted[i].weight);
        if (sorted[i].label > 0.5f) positives += static_cast<double>(sorted[i].weight);
      }
      found += positives;
      if (taken > 0) area += positives / positives_ * (found / taken);
    }
    return positives_ > 0 ? area : std::nan("");
  }
  std::string WhyUndefined() const override {
    return scored_.empty() || positives_ > 0 ? "" : "all labels are 0";
  }

 private:
  std::vector<ScoredExample> scored_;  // as the exact area needs them all
  double positives_ = 0;
};

}  // namespace

const job::MetricKind& PrAucMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kProbability, job::MetricKind::kIfNamed}};
  static constexpr job::MetricKind kKind = {
      .name = "pr_auc", .higher_is_better = true, .of = kOf, .make = MakeMetric<PrAuc>};
  return kKind;
}

}  // namespace coxswain::model
