// The model of a job, as functions on a strategy's cluster. The nodes specific to each kind are in
// coordinator/model/kinds.
//
// Thread model: one thread at a time, that of the strategy.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/cluster_variables.h"
#include "coordinator/model/item_model.h"
#include "coordinator/model/item_search.h"
#include "coordinator/model/model_parts.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

class Model {
 public:
  // Creates the model's tables and variables on the cluster. `earlier_steps`: see
  // ClusterVariables. Errors: InvalidArgument naming the invalid key of the job; those of the
  // strategy.
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      ParameterServerStrategy* strategy, const job::JobSpec& job, const PerWorkerDataset& dataset,
      ClusterVariables::EarlierSteps earlier_steps = nullptr);

  // One training step on a batch. Results: "loss", f32 scalar, the batch's mean; and "weight", f32
  // scalar, the sum of the examples' weights, where they have any. When the job's data set gives
  // "example_id", it also counts the visits of its examples; see visits.h.
  absl::StatusOr<RemoteFunction> DefineTrain() { return DefineTrain(dataset_, 0); }
  // The same on batches of another data set with the same columns. Of its examples the first is
  // counted as number `first_visit`.
  absl::StatusOr<RemoteFunction> DefineTrain(const PerWorkerDataset& dataset, int64_t first_visit);
  // Evaluates a batch. Results, by what the model predicts: kItem: "rank", i64 [B], the number of
  // names that score higher than the true one, without those known for the example; where
  // ranks_in_pieces() those of ItemModel::Evaluate, of which Ranks makes ranks. kLabel:
  // "prediction", f32 [B] or [B, classes] (a probability, a class's probability, or a number) and
  // "label", f32 [B]; then, if the job ranks too (job::MeasuresRanks), "rank" as above; and
  // "score", f32 [B], the logit of a probability. After
  // these, for kItem and kLabel: "slice.0", ..., i64 [B], the values of each of evaluate.slices;
  // "group", i64 [B], if examples have groups (job::MeasuresGroups),
  // "unseen", the column known.unseen, if they rank with evaluate.exclude_known: training, and
  // "weight", f32 [B], if they have weights. kNeighbours: "loss", the sum over the batch's
  // pairs, and "pairs", their number, f32 scalars.
  absl::StatusOr<RemoteFunction> DefineEvaluate(Part part);
  // kItem with a history, unless ranks_in_pieces(): the `k` best items, "scores" f32 [B, k] and
  // "ids" i64 [B, k], best first. Arguments: the histories' values i64 [n] and offsets i32 [B + 1].
  // 1 <= k <= items().
  absl::StatusOr<RemoteFunction> DefineTopItems(int64_t k);
  bool ranks_in_pieces() const { return search_.has_value() && item_model()->in_pieces(); }
  // kItem: which items score highest.
  ItemSearch& search() { return *search_; }
  // Of kItem: those that can be suggested.
  int64_t items() const { return parts_.Candidates(item_feature()); }

  // Whether it is a model of words: evaluated by tests of word vectors, and on a held-out part by
  // its loss alone.
  bool has_words() const { return predicts() == job::Predicts::kNeighbours; }
  // For kNeighbours: the table of word vectors.
  const EmbeddingTable& words() const { return parts_.table(item_feature()); }
  bool ranks() const { return predicts() == job::Predicts::kItem; }
  bool can_recommend() const;
  // The feature whose values are predicted, and recommended.
  std::string item_feature() const { return spec().item(); }

 private:
  Model(ParameterServerStrategy* strategy, const job::JobSpec& job, const PerWorkerDataset& dataset,
        ClusterVariables::EarlierSteps earlier_steps)
      : strategy_(strategy),
        dataset_(dataset),
        variables_(strategy, std::move(earlier_steps)),
        parts_(&variables_, job, dataset_.data()) {}

  const ItemModel* item_model() const { return dynamic_cast<const ItemModel*>(&spec()); }
  const job::ModelSpec& spec() const { return *parts_.job().model; }
  job::Predicts predicts() const { return job::KindOf(spec()).predicts; }

  ParameterServerStrategy* strategy_;
  const PerWorkerDataset dataset_;
  ClusterVariables variables_;
  ModelParts parts_;
  std::optional<EmbeddingTable> visits_;
  std::optional<ItemSearch> search_;
};

}  // namespace coxswain::model
