#include "coordinator/model/task_model.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"
#include "runtime/data/spec_check.h"

namespace coxswain::model {
namespace {

// How much each example counts for a task; invalid where all count the same.
Output WeightsOf(FunctionBuilder& f, const proto::LabelSpec& label) {
  return label.weight().empty() ? Output() : f.Column(data::WeightColumnOf(label.name()));
}

}  // namespace

bool SaysProbability(const job::TaskSpec& task) {
  return job::KindOf(*task.loss).prediction == job::PredictionKind::kProbability;
}

Output TaskModel::Train(FunctionBuilder& f, const ModelParts& parts) const {
  const std::vector<job::TaskSpec>& tasks = parts.job().tasks;
  const std::vector<Output> logits = Logits(f, parts);
  std::vector<Output> losses;
  for (size_t t = 0; t < tasks.size(); ++t) {
    const proto::LabelSpec& label = parts.job().dataset.labels(static_cast<int>(t));
    const Output weights = WeightsOf(f, label);
    const Output labels =
        ModelParts::CountedLabels(f, f.Column(data::LabelColumnOf(label.name())), weights);
    const Output mean =
        ModelParts::MeanOf(f, tasks[t].loss->PerExample(f, logits[t], labels), weights);
    losses.push_back(f.Mul(mean, f.Scalar(static_cast<float>(tasks[t].loss_weight))));
  }
  const Output loss = losses.size() == 1 ? losses[0] : f.Op("AddN", losses);
  parts.Minimize(f, loss);
  return loss;
}

void TaskModel::Evaluate(FunctionBuilder& f, const ModelParts& parts) const {
  const std::vector<job::TaskSpec>& tasks = parts.job().tasks;
  const std::vector<Output> logits = Logits(f, parts);
  for (size_t t = 0; t < tasks.size(); ++t) {
    const proto::LabelSpec& label = parts.job().dataset.labels(static_cast<int>(t));
    f.Result(absl::StrCat(tasks[t].name, "/prediction"), tasks[t].loss->Predict(f, logits[t]));
    f.Result(absl::StrCat(tasks[t].name, "/label"), f.Column(data::LabelColumnOf(label.name())));
    if (SaysProbability(tasks[t])) f.Result(absl::StrCat(tasks[t].name, "/score"), logits[t]);
    const Output weights = WeightsOf(f, label);
    if (weights.valid()) f.Result(absl::StrCat(tasks[t].name, "/weight"), weights);
  }
  parts.ResultExamples(f);
}

void TaskModel::Predict(FunctionBuilder& f, const ModelParts& parts) const {
  const std::vector<job::TaskSpec>& tasks = parts.job().tasks;
  std::vector<Output> scores, predictions;
  const std::vector<Output> logits = Logits(f, parts);
  for (size_t t = 0; t < tasks.size(); ++t) {
    scores.push_back(f.Reshape(logits[t], {-1, 1}));
    predictions.push_back(f.Reshape(tasks[t].loss->Predict(f, logits[t]), {-1, 1}));
  }
  f.Result("score", scores.size() == 1 ? scores[0] : f.Concat(scores, 1));
  f.Result("prediction", predictions.size() == 1 ? predictions[0] : f.Concat(predictions, 1));
}

absl::Status AddTasks(const job::JobSpec& job, absl::Span<const Tensor> results,
                      MeasuredExamples examples, MetricAccumulator* metrics) {
  size_t next = 0;
  for (size_t t = 0; t < job.tasks.size(); ++t) {
    const bool scored = SaysProbability(job.tasks[t]);
    const bool weighted = !job.dataset.labels(static_cast<int>(t)).weight().empty();
    const size_t first = next;
    next += 2 + static_cast<size_t>(scored) + static_cast<size_t>(weighted);
    bool good = next <= results.size();
    for (size_t i = first + 2; good && i < next; ++i) good = results[i].dtype() == DType::kF32;
    if (!good) {
      return absl::InternalError("an evaluation step returned other results than its tasks have");
    }
    examples.task = t;
    examples.scores = {};
    if (scored) examples.scores = results[first + 2].values<float>();
    examples.weights = {};
    if (weighted) examples.weights = results[next - 1].values<float>();
    RETURN_IF_ERROR(metrics->AddPredictions(results[first], results[first + 1], examples));
  }
  if (next == results.size()) return absl::OkStatus();
  return absl::InternalError("an evaluation step returned more results than its tasks have");
}

}  // namespace coxswain::model
