// Evaluation metrics, computed from what the evaluation closures return. Each closure is counted
// once. Thread model: a value of one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/job/job_spec.h"
#include "coxswain/tensor.h"

namespace coxswain {

class MetricAccumulator {
 public:
  explicit MetricAccumulator(std::vector<MetricSpec> metrics) : metrics_(std::move(metrics)) {}

  // `ranks` i64 [B]: how many candidates score higher than the true one.
  void AddRanks(absl::Span<const int64_t> ranks);
  // `prediction` f32 [B] or [B, classes], `label` f32 [B].
  // Errors: Internal when the shapes do not meet.
  absl::Status AddPredictions(const Tensor& prediction, const Tensor& label);

  // `loss` summed over `pairs` of words; f32 scalars. Errors: Internal for others.
  absl::Status AddLoss(const Tensor& loss, const Tensor& pairs);

  // By name. A metric of no examples is not there; one that these examples do not define is not a
  // number.
  std::map<std::string, double> Compute() const;
  // Why metrics that are not defined are not: "all labels are 0".
  std::map<std::string, std::string> Undefined() const;
  int64_t examples() const { return examples_; }  // of a loss: pairs

 private:
  std::vector<MetricSpec> metrics_;
  int64_t examples_ = 0;
  std::vector<int64_t> ranks_;
  // Of single predictions; exact AUC needs them all.
  std::vector<std::pair<float, float>> scored_;  // prediction, label
  double squared_error_ = 0;
  double log_loss_ = 0;
  int64_t correct_ = 0;
  double loss_ = 0;
};

// The area under the ROC curve by ranks, ties counted half (Mann-Whitney). Not a number when one
// class is missing, for there is no pair to rank, or when a score is not a number.
double AreaUnderCurve(std::vector<std::pair<float, float>> scored);

}  // namespace coxswain
