// A metric that a job asks for: of the model, of one of its tasks, or the mean over the classes of
// a list of labels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/metric.h"

namespace coxswain::model {

// Thread model: one thread.
class JobMetric {
 public:
  // `spec.kind` makes metrics of examples.
  explicit JobMetric(const job::MetricSpec& spec) : name_(spec.name), task_(spec.task) {
    for (size_t i = 0; i < spec.tasks; ++i) metrics_.push_back(spec.kind->make(spec.k));
  }

  const std::string& name() const { return name_; }
  // The tasks that it is of: [first_task, end_task).
  size_t first_task() const { return task_; }
  size_t end_task() const { return task_ + metrics_.size(); }
  // Examples of other tasks are ignored.
  void Add(const Measured& measured);
  // `totals`: the sums of the weights of all examples (or numbers of pairs), by task. The mean over
  // the tasks for which it is defined; NaN if it is for none.
  double Value(absl::Span<const double> totals) const;
  // Why it is NaN; empty if it is not.
  std::string WhyUndefined(absl::Span<const double> totals) const;

 private:
  std::string name_;
  size_t task_;
  std::vector<std::unique_ptr<Metric>> metrics_;
};

}  // namespace coxswain::model
