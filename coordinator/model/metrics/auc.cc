// The area under the ROC curve by ranks, ties counted half (Mann-Whitney): the probability that a
// positive example scores higher than a negative one.
#include "coordinator/model/metrics/auc.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class Auc : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.classes != 1) return;
    ForEachExample(
        m, [&](absl::Span<const float> row, float label) { scored_.emplace_back(row[0], label); });
  }
  double Value(int64_t) const override { return AreaUnderCurve(scored_); }
  std::string WhyUndefined() const override {
    const auto positives = std::count_if(scored_.begin(), scored_.end(),
                                         [](const auto& scored) { return scored.second > 0.5f; });
    if (scored_.empty()) return "";
    if (positives != 0 && positives != static_cast<int64_t>(scored_.size())) return "";
    return absl::StrCat("all labels are ", positives == 0 ? 0 : 1);
  }

 private:
  std::vector<std::pair<float, float>> scored_;  // prediction, label: exact AUC needs them all
};

}  // namespace

double AreaUnderCurve(std::vector<std::pair<float, float>> scored) {
  // A model that has diverged: its scores have no order.
  for (const auto& [score, label] : scored) {
    if (std::isnan(score) || std::isnan(label)) return std::nan("");
  }
  std::sort(scored.begin(), scored.end());
  double positives = 0, rank_sum = 0;
  for (size_t begin = 0; begin < scored.size();) {
    size_t end = begin;
    while (end < scored.size() && scored[end].first == scored[begin].first) ++end;
    const double mean_rank = 0.5 * static_cast<double>(begin + 1 + end);
    for (size_t i = begin; i < end; ++i) {
      if (scored[i].second > 0.5f) {
        positives += 1;
        rank_sum += mean_rank;
      }
    }
    begin = end;
  }
  const double negatives = static_cast<double>(scored.size()) - positives;
  if (positives == 0 || negatives == 0) return std::nan("");
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

const job::MetricKind& AucMetric() {
  static constexpr job::MetricKind::Of kOf[] = {{job::PredictionKind::kProbability, 0}};
  static constexpr job::MetricKind kKind = {
      .name = "auc", .higher_is_better = true, .of = kOf, .make = MakeMetric<Auc>};
  return kKind;
}

}  // namespace coxswain::model
