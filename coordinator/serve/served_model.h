// One version of a model, with all the requests that it can answer.
//
// Thread model: immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/model/named_rows.h"
#include "coordinator/predict/recommender.h"
#include "coxswain/saved_model.h"

namespace coxswain::serve {

struct ServedModel {
  int64_t version = 0;  // the steps of its training, and of the models that it went on from
  // The number of lost pages of mapped files before the model was loaded (env::LostPages). A higher
  // number later means that a file was truncated and that predictions are invalid.
  int64_t lost_pages = 0;
  // Nullopt for a kind of model that has no predictions for rows (word2vec).
  std::optional<SavedModel> model;
  // Null for a kind of model that cannot suggest items.
  std::shared_ptr<const predict::Recommender> recommender;
  // The tables whose rows have names.
  std::vector<model::NamedRows> named;
};

// What a job's users are known to have, in memory. Versions share it as long as the inputs beside
// the checkpoints are the same files.
struct SharedHistory {
  std::string identity;  // of the inputs; empty: nothing was read
  std::shared_ptr<const model::SavedHistory> history;
};

using ServedPtr = std::shared_ptr<const ServedModel>;

// `verify`: the files of tables, too, are held against their checksums. Errors: those of
// Predictor::Load, and of the histories that are saved with a model.
absl::StatusOr<ServedPtr> LoadServed(const std::string& model_dir, bool verify = false);
// Errors: those of Predictor::LoadCheckpoint.
// `histories`: of versions of the same job before; what they have is shared.
absl::StatusOr<ServedPtr> LoadServedCheckpoint(const predict::CheckpointPlace& place,
                                               SharedHistory* histories = nullptr);

}  // namespace coxswain::serve
