// Suggests items, with a saved model, to users who have some items already: users of the training
// data, by the histories that are saved with the model, or anyone, by names of items.
//
// Thread model: immutable after Load; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/model/saved_history.h"
#include "coordinator/model/vector_index.h"
#include "coordinator/predict/predictor.h"

namespace coxswain::predict {

struct RecommendOptions {
  int64_t top = 10;
  bool include_known = false;  // also suggests items that the user is known to have
  bool exact = false;          // scores all items even where there is an index
};

class Recommender {
 public:
  // Errors: those of Predictor::Load; FailedPrecondition for a model whose users are not described
  // by their items.
  static absl::StatusOr<std::unique_ptr<Recommender>> Load(const std::string& directory);
  // Whether a model can suggest items: its users must be described by their items.
  static bool CanBe(const Predictor& predictor);
  // The same with an existing predictor, of a model or of a checkpoint.
  static absl::StatusOr<std::unique_ptr<Recommender>> Create(
      std::shared_ptr<const Predictor> predictor);

  // The same with an index of the items, which suggestions then go by. Errors: Cancelled;
  // FailedPrecondition when the recall that is wanted cannot be had; ResourceExhausted; those of
  // Predict.
  absl::StatusOr<std::unique_ptr<Recommender>> WithIndex(const model::IndexOptions& options) const;
  // How good the index is; null: there is none.
  const model::IndexQuality* index() const { return index_ == nullptr ? nullptr : &quality_; }

  const Predictor& predictor() const { return *predictor_; }
  // The saved histories; null for a model that an earlier version saved without them.
  const model::SavedHistory* history() const { return history_.get(); }

  // Ids of items. Errors: NotFound for a name that the model does not know.
  absl::StatusOr<std::vector<int64_t>> ItemsOf(absl::Span<const std::string> names) const;
  // A user: the user's items, and where groups are items (`evaluate.suggest_self: false`) the one
  // with the user's own name, which is not suggested.
  struct Whom {
    std::vector<int64_t> known;
    std::optional<int64_t> self = std::nullopt;
  };
  // The user that a group of history() stands for.
  Whom Group(int64_t group) const;
  // For each user the best items, best first. Errors: those of Predict.
  absl::StatusOr<std::vector<std::vector<Choice>>> RecommendTo(
      absl::Span<const Whom> all, const RecommendOptions& options) const;
  // For each list of ids the best items, best first.
  absl::StatusOr<std::vector<std::vector<Choice>>> Recommend(
      absl::Span<const std::vector<int64_t>> known, const RecommendOptions& options) const;

 private:
  Recommender() = default;
  absl::Status FillIndex(const model::IndexOptions& options);
  // Those whom the index is tried on.
  std::vector<std::vector<int64_t>> Sample() const;
  // What the index is asked for: a user's vector, and 1 for the item's number.
  absl::StatusOr<std::vector<std::vector<float>>> QueriesOf(
      absl::Span<const std::vector<int64_t>> known) const;
  absl::Status ScoreAll(absl::Span<const std::vector<int64_t>> known,
                        const RecommendOptions& options,
                        std::vector<std::vector<Choice>>* all) const;
  absl::Status AskIndex(absl::Span<const std::vector<int64_t>> known,
                        const RecommendOptions& options,
                        std::vector<std::vector<Choice>>* all) const;

  std::shared_ptr<const Predictor> predictor_;
  std::shared_ptr<const model::SavedHistory> history_;
  std::shared_ptr<const model::VectorIndex> index_;
  model::IndexQuality quality_;
};

}  // namespace coxswain::predict
