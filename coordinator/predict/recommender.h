// Suggests items with a saved model: to users of its training data, by the histories that are saved
// with it or by their own vectors; to anyone who has some items; and to anyone who is described by
// values.
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
#include "coordinator/model/hashed_names.h"
#include "coordinator/model/saved_history.h"
#include "coordinator/model/vector_index.h"
#include "coordinator/predict/predictor.h"
#include "coxswain/saved_model.h"
#include "runtime/data/vocabulary.h"

namespace coxswain::predict {

struct RecommendOptions {
  int64_t top = 10;
  bool include_known = false;  // also suggests items that the user is known to have
  bool exact = false;          // scores all items even where there is an index
};

class Recommender {
 public:
  // Errors: those of Predictor::Load; FailedPrecondition for a model that suggests no items.
  static absl::StatusOr<std::unique_ptr<Recommender>> Load(const std::string& directory);
  static bool CanBe(const Predictor& predictor) { return predictor.suggests(); }
  // The same with an existing predictor, of a model or of a checkpoint. `history`: what is saved
  // with it, where that is in memory; else it is read.
  static absl::StatusOr<std::unique_ptr<Recommender>> Create(
      std::shared_ptr<const Predictor> predictor,
      std::shared_ptr<const model::SavedHistory> history = nullptr);

  // The same with an index of the items, which suggestions then go by. Errors: Cancelled;
  // FailedPrecondition when the recall that is wanted cannot be had; ResourceExhausted; those of
  // Predict.
  absl::StatusOr<std::unique_ptr<Recommender>> WithIndex(const model::IndexOptions& options) const;
  // How good the index is; null: there is none.
  const model::IndexQuality* index() const { return index_ == nullptr ? nullptr : &quality_; }

  const Predictor& predictor() const { return *predictor_; }
  // The saved histories; null for a model that an earlier version saved without them.
  const model::SavedHistory* history() const { return history_.get(); }
  std::shared_ptr<const model::SavedHistory> shared_history() const { return history_; }

  // A user: the items that the user has; where groups are items (`evaluate.suggest_self: false`)
  // the one with the user's own name, which is not suggested; and the values that describe the
  // user, parallel to columns(): none where the items do.
  struct Whom {
    std::vector<int64_t> known;
    std::optional<int64_t> self = std::nullopt;
    std::vector<RawValue> values = {};
    bool knows_all = true;  // `known` is all that the user had in training
  };
  // Whether a user is described by the items that the user has, and by nothing else.
  bool described_by_items() const { return described_by_items_; }
  // What describes a user.
  const std::vector<RawColumn>& columns() const { return columns_; }
  // The names of the users of the training data. Errors: FailedPrecondition for a model that keeps
  // none, or whose users are described by more than is kept.
  absl::StatusOr<const std::vector<std::string>*> Users() const;
  // One of them. Errors: FailedPrecondition where a name says nothing of a user; NotFound for a
  // name that is not one of them, as far as the model keeps who they are.
  absl::StatusOr<Whom> User(const std::string& name) const;
  // Someone who has these items. Errors: FailedPrecondition where more describes a user; NotFound
  // for a name that the model does not know.
  absl::StatusOr<Whom> WithItems(absl::Span<const std::string> names) const;
  // Someone who is described by values parallel to columns(). Errors: InvalidArgument for a value
  // that the model cannot read; NotFound for a user or an item that it does not know.
  absl::StatusOr<Whom> WithValues(std::vector<RawValue> values) const;
  // Ids of items. Errors: NotFound for a name that the model does not know.
  absl::StatusOr<std::vector<int64_t>> ItemsOf(absl::Span<const std::string> names) const;
  // The user that a group of history() stands for.
  Whom Group(int64_t group) const;

  // For each user the best items, best first. Errors: those of Predict; FailedPrecondition where
  // what users are known to have is to be left out, and the model does not keep it.
  absl::StatusOr<std::vector<std::vector<Choice>>> RecommendTo(
      absl::Span<const Whom> all, const RecommendOptions& options) const;

 private:
  explicit Recommender(std::shared_ptr<const Predictor> predictor);
  bool GroupsAreUsers() const;
  // Where the model keeps what its users have.
  absl::Status ReadHistory();
  // Where the users' values are hashed, and kept.
  absl::Status ReadHashedNames();
  absl::Status DescribedOtherwise() const;
  // One who is a value of user_.
  absl::StatusOr<Whom> UserOfValue(const std::string& name) const;
  // The items that values parallel to columns() have in a history.
  absl::StatusOr<std::vector<int64_t>> HistoryIn(absl::Span<const RawValue> values) const;
  absl::Status CheckKnown(absl::Span<const Whom> users, const RecommendOptions& options) const;
  // Users as the model takes them: all of them, or none, are described by values.
  absl::StatusOr<data::Batch> BatchOf(absl::Span<const Whom> users) const;
  // `lifted`: with one more number for each item, which makes all of them equally long; it is 0 of
  // users.
  absl::Status FillIndex(const model::IndexOptions& options, bool lifted);
  // A user whom indexes are tried on, with the exact answers.
  struct Trial;
  absl::StatusOr<std::vector<Trial>> Trials(const model::IndexOptions& options) const;
  absl::StatusOr<std::vector<Whom>> Sample() const;
  // How good the index is.
  absl::Status TryIndex(const std::vector<Trial>& trials, double recall);
  // What the index is asked for: a user's vector, and 1 for the item's number.
  std::vector<std::vector<float>> QueriesOf(const UserVectors& users) const;
  absl::Status ScoreAll(absl::Span<const Whom> users, const RecommendOptions& options,
                        std::vector<std::vector<Choice>>* all) const;
  // Scores all items for a user for whom it finds fewer than there are.
  absl::Status AskIndex(absl::Span<const Whom> users, const RecommendOptions& options,
                        std::vector<std::vector<Choice>>* all) const;

  std::shared_ptr<const Predictor> predictor_;
  std::vector<RawColumn> columns_;
  bool described_by_items_ = false;
  // The feature whose values are the users, where nothing else describes them; how these become
  // ids; and the values, if there is a vocabulary, or if they are kept although they are hashed.
  std::string user_;
  std::shared_ptr<const data::Vocabulary> ids_, names_;
  std::shared_ptr<const model::HashedNames> hashed_names_;
  bool groups_are_ids_ = false;  // of history_
  std::shared_ptr<const model::SavedHistory> history_;
  std::shared_ptr<const model::VectorIndex> index_;
  bool lifted_ = false;  // as FillIndex filled it
  model::IndexQuality quality_;
};

}  // namespace coxswain::predict
