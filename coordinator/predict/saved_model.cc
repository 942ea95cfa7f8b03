// The public handle on a Predictor.
#include "coxswain/saved_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/predict/predictor.h"
#include "coordinator/predict/raw_rows.h"
#include "runtime/base/status.h"

namespace coxswain {

struct SavedModel::State {
  std::shared_ptr<const predict::Predictor> predictor;
  std::vector<RawColumn> columns;
};

namespace {

// The predictions for rows [begin, begin + scores) of a batch.
void Append(const predict::Predictor& predictor, const predict::Scores& scores, int64_t top,
            std::vector<Prediction>* predictions) {
  for (int64_t row = 0; row < scores.score.dim(0); ++row) {
    Prediction& prediction = predictions->emplace_back();
    const std::vector<job::TaskSpec>& tasks = predictor.tasks();
    for (size_t t = 0; t < tasks.size(); ++t) {
      const size_t at = static_cast<size_t>(row) * tasks.size() + t;
      prediction.choices.push_back(
          {tasks[t].name, scores.score.data<float>()[at], scores.prediction.data<float>()[at]});
    }
    if (!tasks.empty()) {
      prediction.score = prediction.choices[0].score;
      prediction.value = prediction.choices[0].probability;
      continue;
    }
    if (!predictor.chooses()) {
      prediction.score = scores.score.data<float>()[row];
      prediction.value = scores.prediction.data<float>()[row];
      continue;
    }
    for (const predict::Choice& choice : predictor.Best(scores, row, top)) {
      prediction.choices.push_back({predictor.NameOf(choice.id), choice.score, choice.probability});
    }
    if (prediction.choices.empty()) continue;
    prediction.score = prediction.choices[0].score;
    prediction.value = prediction.choices[0].probability;
  }
}

}  // namespace

absl::StatusOr<SavedModel> SavedModel::Load(const std::string& directory, const Options& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<const predict::Predictor> predictor,
                   predict::Predictor::Load(directory, {.verify = options.verify}));
  return SavedModel(std::move(predictor));
}

absl::StatusOr<SavedModel> SavedModel::LoadCheckpoint(const std::string& directory) {
  ASSIGN_OR_RETURN(std::shared_ptr<const predict::Predictor> predictor,
                   predict::Predictor::LoadCheckpoint({.directory = directory}));
  return SavedModel(std::move(predictor));
}

SavedModel::SavedModel(std::shared_ptr<const predict::Predictor> predictor) {
  auto state = std::make_shared<State>();
  state->predictor = std::move(predictor);
  for (const auto& input : state->predictor->rows().inputs()) {
    state->columns.push_back(predict::ColumnOf(input));
  }
  state_ = std::move(state);
}

SavedModel::Says SavedModel::says() const {
  switch (state_->predictor->says()) {
    case job::PredictionKind::kProbability:
      return Says::kProbability;
    case job::PredictionKind::kClasses:
      return Says::kClasses;
    case job::PredictionKind::kRank:
      return Says::kItems;
    case job::PredictionKind::kTasks:
      return Says::kTasks;
    case job::PredictionKind::kNumber:
    case job::PredictionKind::kPairs:
    case job::PredictionKind::kOrder:
      break;
  }
  return Says::kNumber;
}

const std::vector<RawColumn>& SavedModel::columns() const { return state_->columns; }

absl::StatusOr<std::vector<Prediction>> SavedModel::Predict(const RawRows& rows,
                                                            int64_t top) const {
  if (top < 1)
    return absl::InvalidArgumentError(absl::StrCat("top: wanted 1 or more, found ", top));
  const predict::Predictor& predictor = *state_->predictor;
  ASSIGN_OR_RETURN(const data::InputRows read, predict::ReadRaw(predictor.rows(), rows));
  std::vector<Prediction> predictions;
  predictions.reserve(static_cast<size_t>(read.rows()));
  for (int64_t begin = 0; begin < read.rows(); begin += predictor.batch_rows()) {
    const int64_t end = std::min(read.rows(), begin + predictor.batch_rows());
    ASSIGN_OR_RETURN(const data::Batch batch, read.Read(begin, end));
    ASSIGN_OR_RETURN(const predict::Scores scores, predictor.Predict(batch));
    Append(predictor, scores, top, &predictions);
  }
  return predictions;
}

const predict::Predictor& SavedModel::predictor() const { return *state_->predictor; }

}  // namespace coxswain
