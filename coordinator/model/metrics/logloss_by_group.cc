// The mean over all groups of the log loss of each: a user with many examples counts as much as one
// with few. Groups whose weights are all 0 are left out.
#include <map>

#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {
namespace {

class LogLossByGroup : public Metric {
 public:
  void Add(const Measured& m) override {
    if (m.group.size() != m.label.size()) return;
    const auto classes = static_cast<size_t>(m.classes);
    for (size_t i = 0; i < m.label.size(); ++i) {
      Mean& mean = groups_[m.group[i]];
      mean.sum += m.weight_of(i) * Loss(m.prediction.subspan(i * classes, classes), m.label[i]);
      mean.weight += m.weight_of(i);
    }
  }
  double Value(double) const override {
    double sum = 0, groups = 0;
    for (const auto& [group, mean] : groups_) {
      if (!(mean.weight > 0)) continue;
      sum += mean.sum / mean.weight;
      groups += 1;
    }
    return sum / groups;
  }

 private:
  struct Mean {
    double sum = 0, weight = 0;
  };

  static double Loss(absl::Span<const float> row, float label) {
    if (row.size() == 1) return LogLossOf(static_cast<double>(row[0]), label);
    const auto wanted = static_cast<int64_t>(label);
    if (wanted < 0 || wanted >= static_cast<int64_t>(row.size())) return 0;
    return -std::log(Chance(static_cast<double>(row[static_cast<size_t>(wanted)])));
  }

  std::map<int64_t, Mean> groups_;
};

}  // namespace

const job::MetricKind& LogLossByGroupMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kProbability, job::MetricKind::kIfNamed + 5},
      {job::PredictionKind::kClasses, job::MetricKind::kIfNamed + 2}};
  static constexpr job::MetricKind kKind = {.name = "logloss_by_group",
                                            .higher_is_better = false,
                                            .by_group = true,
                                            .of = kOf,
                                            .make = MakeMetric<LogLossByGroup>};
  return kKind;
}

}  // namespace coxswain::model
