// One version of a model, with all that it can be asked for.
//
// Thread model: immutable; any thread.
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
  int64_t version = 0;  // the steps of its training
  // Of mapped files, before it was loaded (env::LostPages): when there are more, somebody has cut a
  // file short, and what it says is worth nothing.
  int64_t lost_pages = 0;
  // Nothing for a kind of model that predicts nothing of rows (word2vec).
  std::optional<SavedModel> model;
  // Null for a kind of model that suggests nothing.
  std::shared_ptr<const predict::Recommender> recommender;
  // Its tables whose rows have names.
  std::vector<model::NamedRows> named;
};

using ServedPtr = std::shared_ptr<const ServedModel>;

// Errors: those of Predictor::Load, and of the histories that are saved with a model.
absl::StatusOr<ServedPtr> LoadServed(const std::string& model_dir, bool verify = false);
// Errors: those of Predictor::LoadCheckpoint.
absl::StatusOr<ServedPtr> LoadServedCheckpoint(const predict::CheckpointPlace& place);

}  // namespace coxswain::serve
