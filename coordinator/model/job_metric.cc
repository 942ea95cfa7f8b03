#include "coordinator/model/job_metric.h"

#include <cmath>

namespace coxswain::model {

void JobMetric::Add(const Measured& measured) {
  if (measured.task < first_task() || measured.task >= end_task()) return;
  metrics_[measured.task - task_]->Add(measured);
}

double JobMetric::Value(absl::Span<const double> totals) const {
  double sum = 0;
  int64_t defined = 0;
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const double total = task_ + i < totals.size() ? totals[task_ + i] : 0;
    const double value = total > 0 ? metrics_[i]->Value(total) : std::nan("");
    if (std::isnan(value)) continue;
    sum += value;
    ++defined;
  }
  return defined > 0 ? sum / static_cast<double>(defined) : std::nan("");
}

std::string JobMetric::WhyUndefined(absl::Span<const double> totals) const {
  std::string why;
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const bool weighs = task_ + i < totals.size() && totals[task_ + i] > 0;
    why = weighs ? metrics_[i]->WhyUndefined() : "all weights are 0";
    if (why.empty()) return why;
  }
  return why;
}

}  // namespace coxswain::model
