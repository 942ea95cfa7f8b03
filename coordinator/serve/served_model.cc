#include "coordinator/serve/served_model.h"

#include <utility>

#include "absl/status/status.h"
#include "coordinator/model/checkpoint_tables.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/unreplaced.h"
#include "coordinator/predict/item_vectors.h"
#include "coordinator/predict/predictor.h"
#include "runtime/base/status.h"
#include "runtime/env/lost_pages.h"

namespace coxswain::serve {
namespace {

absl::StatusOr<ServedPtr> Serve(std::shared_ptr<const predict::Predictor> predictor,
                                const model::SavedSource& source, int64_t lost_pages,
                                model::CheckpointTables* tables,
                                std::shared_ptr<const model::SavedHistory> history) {
  auto served = std::make_shared<ServedModel>();
  served->lost_pages = lost_pages;
  served->version = source.all_steps();
  for (const model::SavedVariable& variable : source.variables()) {
    if (!variable.named()) continue;
    // The texts are shared by all of their users.
    std::shared_ptr<const data::Vocabulary> words =
        predictor == nullptr ? nullptr : predictor->VocabularyOf(variable.vocabulary);
    ASSIGN_OR_RETURN(served->named.emplace_back(),
                     model::NamedRows::Open(source, variable.name, std::move(words)));
    if (predictor != nullptr && predict::DescribesItems(predictor->job(), variable.name)) {
      RETURN_IF_ERROR(predict::UseItemVectors(*predictor, &served->named.back()));
      continue;
    }
    // A saved model's rows are mapped: its pages are in memory as long as they are asked for.
    if (tables != nullptr) RETURN_IF_ERROR(served->named.back().KeepInMemory(source, tables));
  }
  if (predictor == nullptr) return served;
  served->model.emplace(predictor);
  if (predict::Recommender::CanBe(*predictor)) {
    ASSIGN_OR_RETURN(served->recommender,
                     predict::Recommender::Create(std::move(predictor), std::move(history)));
  }
  return served;
}

// Whether the model supports only neighbours of words.
bool OnlyNeighbours(const job::JobSpec& job) {
  return job::KindOf(*job.model).predicts == job::Predicts::kNeighbours;
}

absl::StatusOr<ServedPtr> LoadOnce(const std::string& model_dir, bool verify) {
  env::GuardMappedFiles();
  const int64_t lost_pages = env::LostPages();
  ASSIGN_OR_RETURN(const job::JobSpec job, model::ReadKeptJob(model_dir, model::kSavedModel));
  std::shared_ptr<const predict::Predictor> predictor;
  ASSIGN_OR_RETURN(const model::SavedSource source, model::SavedSource::OpenModel(model_dir));
  if (!OnlyNeighbours(job)) {
    ASSIGN_OR_RETURN(predictor, predict::Predictor::Load(model_dir, {.verify = verify}));
  } else {
    ASSIGN_OR_RETURN(const nlohmann::json manifest, model::ReadModelManifest(model_dir));
    RETURN_IF_ERROR(model::CheckModelFiles(model_dir, manifest));
    if (verify) RETURN_IF_ERROR(model::VerifySource(source));
  }
  return Serve(std::move(predictor), source, lost_pages, nullptr, nullptr);
}

}  // namespace

absl::StatusOr<ServedPtr> LoadServed(const std::string& model_dir, bool verify) {
  return model::ReadUnreplaced(model_dir, model::kSavedModel.file,
                               [&] { return LoadOnce(model_dir, verify); });
}

absl::StatusOr<ServedPtr> LoadServedCheckpoint(const predict::CheckpointPlace& place,
                                               SharedHistory* histories) {
  const std::string inputs = model::InputsOf(place.directory);
  ASSIGN_OR_RETURN(model::SavedSource source,
                   model::SavedSource::OpenCheckpoint(place.directory, place.number));
  RETURN_IF_ERROR(model::NameRows(place.directory, &source));
  const auto job = model::ReadKeptJob(inputs, model::kSavedInputs);
  std::shared_ptr<const predict::Predictor> predictor;
  if (!job.ok() || !OnlyNeighbours(*job)) {
    ASSIGN_OR_RETURN(predictor, predict::Predictor::LoadCheckpoint(place));
  }
  const std::string identity = place.inputs == nullptr ? "" : place.inputs->identity;
  std::shared_ptr<const model::SavedHistory> history;
  if (histories != nullptr && !identity.empty() && histories->identity == identity) {
    history = histories->history;
  }
  ASSIGN_OR_RETURN(ServedPtr served, Serve(std::move(predictor), source, env::LostPages(),
                                           place.tables.get(), std::move(history)));
  if (histories != nullptr && served->recommender != nullptr) {
    *histories = {identity, served->recommender->shared_history()};
  }
  return served;
}

}  // namespace coxswain::serve
