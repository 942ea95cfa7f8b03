// The area under the ROC curve, ties counted half (Mann-Whitney): the probability that a positive
// example scores higher than a negative one, each drawn by its weight.
#include "coordinator/model/metrics/auc.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class Auc : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.classes != 1) return;
    for (size_t i = 0; i < m.label.size(); ++i) scored_.push_back(ScoredOf(m, i));
  }
  double Value(double) const override { return WeightedArea(scored_); }
  std::string WhyUndefined() const override {
    bool label[2] = {};
    for (const ScoredExample& example : scored_) {
      if (example.weight > 0) label[example.label > 0.5f ? 1 : 0] = true;
    }
    if (label[0] == label[1]) return "";
    return absl::StrCat("all labels are ", label[1] ? 1 : 0);
  }

 private:
  std::vector<ScoredExample> scored_;  // exact AUC needs them all
};

}  // namespace

double WeightedArea(std::vector<ScoredExample> scored) {
  // A model that has diverged: its scores have no order.
  for (const ScoredExample& example : scored) {
    if (std::isnan(example.score) || std::isnan(example.label)) return std::nan("");
  }
  std::sort(scored.begin(), scored.end(),
            [](const ScoredExample& a, const ScoredExample& b) { return a.score < b.score; });
  double positives = 0, negatives = 0, pairs = 0;
  for (size_t i = 0; i < scored.size();) {
    const float score = scored[i].score;
    double of_score[2] = {};
    for (; i < scored.size() && scored[i].score == score; ++i) {
      of_score[scored[i].label > 0.5f ? 1 : 0] += static_cast<double>(scored[i].weight);
    }
    pairs += of_score[1] * (negatives + 0.5 * of_score[0]);
    negatives += of_score[0];
    positives += of_score[1];
  }
  if (positives == 0 || negatives == 0) return std::nan("");
  return pairs / (positives * negatives);
}

double AreaUnderCurve(const std::vector<std::pair<float, float>>& scored) {
  std::vector<ScoredExample> examples;
  examples.reserve(scored.size());
  for (const auto& [score, label] : scored) examples.push_back({score, label});
  return WeightedArea(std::move(examples));
}

const job::MetricKind& AucMetric() {
  static constexpr job::MetricKind::Of kOf[] = {{job::PredictionKind::kProbability, 0}};
  static constexpr job::MetricKind kKind = {
      .name = "auc", .higher_is_better = true, .of = kOf, .make = MakeMetric<Auc>};
  return kKind;
}

}  // namespace coxswain::model
