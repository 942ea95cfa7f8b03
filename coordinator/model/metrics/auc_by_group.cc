// The mean of the areas under the ROC curve of all groups, by their weights (GAUC: Zhu et al.,
// 2017; Zhou et al., 2018): how well a user's own examples are ordered. A group's weight is that of
// its examples. Groups whose labels are all the same have no area and are left out; where all are,
// it is not defined.
#include <map>

#include "coordinator/model/metrics/auc.h"
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class AucByGroup : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.classes != 1 || m.group.size() != m.label.size()) return;
    for (size_t i = 0; i < m.label.size(); ++i) {
      groups_[m.group[i]].push_back(ScoredOf(m, i));
    }
  }
  double Value(double) const override {
    double sum = 0, weights = 0;
    for (const auto& [group, scored] : groups_) {
      double weight = 0;
      bool label[2] = {};
      for (const ScoredExample& example : scored) {
        weight += static_cast<double>(example.weight);
        if (example.weight > 0) label[example.label > 0.5f ? 1 : 0] = true;
      }
      if (!label[0] || !label[1]) continue;
      sum += weight * WeightedArea(scored);
      weights += weight;
    }
    return weights > 0 ? sum / weights : std::nan("");
  }
  std::string WhyUndefined() const override {
    for (const auto& [group, scored] : groups_) {
      bool label[2] = {};
      for (const ScoredExample& example : scored) {
        if (example.weight > 0) label[example.label > 0.5f ? 1 : 0] = true;
      }
      if (label[0] && label[1]) return "";
    }
    return groups_.empty() ? "" : "no group has labels of both kinds";
  }

 private:
  std::map<int64_t, std::vector<ScoredExample>> groups_;
};

}  // namespace

const job::MetricKind& AucByGroupMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kProbability, job::MetricKind::kIfNamed + 4}};
  static constexpr job::MetricKind kKind = {.name = "auc_by_group",
                                            .higher_is_better = true,
                                            .by_group = true,
                                            .of = kOf,
                                            .make = MakeMetric<AucByGroup>};
  return kKind;
}

}  // namespace coxswain::model
