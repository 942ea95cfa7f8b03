// Models of several tasks: a number for each of the job's labels, and a loss for each.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/metrics.h"
#include "coxswain/tensor.h"

namespace coxswain::model {

inline constexpr job::PredictionKind kTasks[] = {job::PredictionKind::kTasks};

// Its loss says the probability that the label is 1. Metrics of order take its logits
// (Measured::score).
bool SaysProbability(const job::TaskSpec& task);

class TaskModel : public job::ModelSpec {
 public:
  // For each of the job's tasks, before its loss's link function: f32 [B].
  virtual std::vector<Output> Logits(FunctionBuilder& f, const ModelParts& parts) const = 0;

  // The sum of the tasks' mean losses, each times its weight.
  Output Train(FunctionBuilder& f, const ModelParts& parts) const override;
  // For each task what its loss says of the logits and its label, f32 [B], the logits where that is
  // a probability, and where its rows have weights these, f32 [B]; then "group", where examples
  // belong together.
  void Evaluate(FunctionBuilder& f, const ModelParts& parts) const override;
  // "score" and "prediction", f32 [B, tasks].
  void Predict(FunctionBuilder& f, const ModelParts& parts) const override;
};

// Adds what an evaluation step of such a model said, less its groups, which `examples` has.
// Errors: Internal when it is not what the job's tasks have.
absl::Status AddTasks(const job::JobSpec& job, absl::Span<const Tensor> results,
                      MeasuredExamples examples, MetricAccumulator* metrics);

}  // namespace coxswain::model
