// Evaluation metrics, computed from the results of evaluation closures. Each closure is counted
// once. Thread model: used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/bootstrap.h"
#include "coordinator/model/job_metric.h"
#include "coordinator/model/metric.h"
#include "coordinator/model/slices.h"
#include "coxswain/tensor.h"

namespace coxswain::model {

// Attributes of the examples of a batch, beside the predictions; empty: the examples have none.
struct MeasuredExamples {
  absl::Span<const float> weights = {};   // weights of the examples
  absl::Span<const float> scores = {};    // Measured::score
  absl::Span<const int64_t> groups = {};  // equal numbers form a group
  absl::Span<const int64_t> unseen = {};  // Measured::unseen
  size_t task = 0;                        // whose predictions these are
  // Beside predictions: as in AddRanks; below 0 for an example that is no item of the user's list.
  absl::Span<const int64_t> ranks = {};
  std::vector<absl::Span<const int64_t>> slices = {};  // for each of evaluate.slices: the values
};

class MetricAccumulator {
 public:
  // `bootstrap`, `slices`: what is added is added to them, too; null: to none. They must outlive
  // this.
  explicit MetricAccumulator(const std::vector<job::MetricSpec>& metrics,
                             Bootstrap* bootstrap = nullptr, Slices* slices = nullptr);

  // The next `examples` of a task, of a loss of words: pairs.
  void Add(const Measured& measured, int64_t examples);

  // `ranks` i64 [B]: the number of candidates that score higher than the true one.
  void AddRanks(absl::Span<const int64_t> ranks, const MeasuredExamples& examples = {});
  // `prediction` f32 [B] or [B, classes], `label` f32 [B]. Errors: Internal when the shapes do not
  // match.
  absl::Status AddPredictions(const Tensor& prediction, const Tensor& label,
                              const MeasuredExamples& examples = {});

  // `loss` summed over `pairs` of words; f32 scalars. Errors: Internal for others.
  absl::Status AddLoss(const Tensor& loss, const Tensor& pairs);

  // Values by name. Metrics without examples are missing; a metric that is not defined for these
  // examples is NaN, and so are all of predictions of which one is no finite number: that one is
  // neither right nor wrong.
  std::map<std::string, double> Compute() const;
  // The reasons why metrics are undefined, by name: "all labels are 0".
  std::map<std::string, std::string> Undefined() const;
  int64_t examples() const { return examples_; }  // for a loss of words: pairs

 private:
  // Of the metric's tasks: the most examples whose prediction is no finite number.
  int64_t NotFinite(const JobMetric& metric) const;

  std::vector<JobMetric> metrics_;
  Bootstrap* bootstrap_;
  Slices* slices_;
  int64_t examples_ = 0;
  // By task: the sum of the examples' weights, and examples whose prediction is no finite number.
  std::vector<double> totals_;
  std::vector<int64_t> not_finite_;
};

}  // namespace coxswain::model
