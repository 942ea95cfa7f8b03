#include "coordinator/model/model.h"

#include "absl/strings/str_cat.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/regularization.h"
#include "coordinator/model/visits.h"
#include "runtime/base/status.h"
#include "runtime/data/spec_check.h"

namespace coxswain::model {
namespace {

// How many numbers there are, f32 scalar.
Output Count(FunctionBuilder& f, Output numbers) {
  return f.Sum(f.Op("OnesLike", {f.Cast(numbers, DType::kF32)}));
}

// How much the loss of a batch counts among others; invalid: as much as it has examples.
Output WeightOfLoss(FunctionBuilder& f, const ModelParts& parts) {
  const proto::FeatureSpec* const history = data::FindHistory(parts.job().dataset);
  if (history != nullptr && history->width() > 0) {  // a mean over the targets of windows
    const std::string next = absl::StrCat(history->name(), ".next");
    const bool weighted = !parts.job().dataset.label().weight().empty();
    return weighted ? f.Sum(f.Column(absl::StrCat(next, ".weight"))) : Count(f, f.Column(next));
  }
  if (const Output weights = parts.Weights(f); weights.valid()) return f.Sum(weights);
  const job::JobSpec& job = parts.job();
  const bool of_rows = job::HasLabel(job) && job.tasks.empty() &&
                       job::KindOf(*job.loss).prediction != job::PredictionKind::kOrder;
  if (job.dataset.query().empty() || !of_rows) return {};
  // A mean over rows, of which a query has several.
  return Count(f, parts.Label(f));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Create(ParameterServerStrategy* strategy,
                                                     const job::JobSpec& job,
                                                     const PerWorkerDataset& dataset,
                                                     ClusterVariables::EarlierSteps earlier_steps) {
  std::unique_ptr<Model> model(new Model(strategy, job, dataset, std::move(earlier_steps)));
  RETURN_IF_ERROR(model->parts_.CreateTables());
  RETURN_IF_ERROR(job.model->CreateVariables(&model->parts_));
  RETURN_IF_ERROR(job::CheckLayers(job, model->parts_.DenseNames()));
  if (const ItemModel* const ranks = model->item_model()) {
    model->search_.emplace(strategy, *ranks, model->parts_);
  }
  if (job.dataset.example_ids()) {
    ASSIGN_OR_RETURN(model->visits_, CreateVisits(strategy, dataset));
  }
  return model;
}

bool Model::can_recommend() const {
  if (!ranks()) return false;
  for (const std::string& name : spec().user_features()) {
    if (parts_.job().FindFeature(name)->history_of() != item_feature()) return false;
  }
  return true;
}

absl::StatusOr<RemoteFunction> Model::DefineTrain(const PerWorkerDataset& dataset,
                                                  int64_t first_visit) {
  return strategy_->Define("train_step", dataset, [this, first_visit](FunctionBuilder& f) {
    parts_.set_training(true);
    const Output loss = spec().Train(f, parts_);
    parts_.set_training(false);
    if (visits_) CountVisits(f, *visits_, first_visit);
    f.Result("loss", loss);
    if (const Output weight = WeightOfLoss(f, parts_); weight.valid()) f.Result("weight", weight);
  });
}

absl::StatusOr<RemoteFunction> Model::DefineEvaluate(Part part) {
  return strategy_->Define(
      "evaluate", dataset_,
      [this](FunctionBuilder& f) {
        f.ReadAverages();
        spec().Evaluate(f, parts_);
      },
      part);
}

absl::StatusOr<RemoteFunction> Model::DefineTopItems(int64_t k) {
  return strategy_->Define(absl::StrCat("top_", k), [this, k](FunctionBuilder& f) {
    f.ReadAverages();
    const Output values = f.Argument("values", DType::kI64, {kUnknownDim});
    const Output offsets = f.Argument("offsets", DType::kI32, {kUnknownDim});
    spec().TopItems(f, parts_, values, offsets, k);
  });
}

}  // namespace coxswain::model
