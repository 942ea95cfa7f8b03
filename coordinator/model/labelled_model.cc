#include "coordinator/model/labelled_model.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/model/model_parts.h"
#include "runtime/data/queries.h"

namespace coxswain::model {

bool SaysProbabilities(const job::JobSpec& job) {
  return job.tasks.empty() && job.loss != nullptr &&
         job::KindOf(*job.loss).prediction == job::PredictionKind::kProbability;
}

Output LabelledModel::Train(FunctionBuilder& f, const ModelParts& parts) const {
  Output logits = Logits(f, parts);
  const double keep = parts.job().dataset.label().keep_negatives();
  if (keep > 0 && keep < 1) {
    // Among the rows that steps get the odds of a 1 are greater by the factor 1 / keep. With this
    // the logits remain those of all rows, and so do predictions.
    logits = f.Add(logits, f.Scalar(static_cast<float>(-std::log(keep))));
  }
  const job::LossSpec& spec = *parts.job().loss;
  const bool queries = job::KindOf(spec).prediction == job::PredictionKind::kOrder;
  const Output labels = ModelParts::CountedLabels(f, parts.Label(f), parts.Weights(f));
  const Output loss = queries
                          ? f.Mean(spec.PerQuery(f, logits, labels, f.Column(data::kQueryOffsets)))
                          : parts.MeanLoss(f, spec.PerExample(f, logits, labels));
  parts.Minimize(f, loss);
  return loss;
}

void LabelledModel::Evaluate(FunctionBuilder& f, const ModelParts& parts) const {
  const Output logits = Logits(f, parts);
  f.Result("prediction", parts.job().loss->Predict(f, logits));
  f.Result("label", f.Cast(parts.Label(f), DType::kF32));
  if (job::MeasuresRanks(parts.job())) {
    f.Result("rank", ItemRanks(f, parts));
  }
  if (SaysProbabilities(parts.job())) f.Result("score", logits);
  parts.ResultExamples(f);
}

Output LabelledModel::ItemRanks(FunctionBuilder& f, const ModelParts&) const {
  f.Fail(absl::UnimplementedError(absl::StrCat("a ", job::KindOf(*this).name, " ranks no items")));
  return {};
}

void LabelledModel::Predict(FunctionBuilder& f, const ModelParts& parts) const {
  const Output logits = Logits(f, parts);
  f.Result("score", logits);
  f.Result("prediction", parts.job().loss->Predict(f, logits));
}

}  // namespace coxswain::model
