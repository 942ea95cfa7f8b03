// The models that JOB.yaml can name, as functions on a strategy's cluster.
//
// Thread model: one thread at a time, that of the strategy.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/strategy.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/word2vec.h"

namespace coxswain {

class Model {
 public:
  // Creates the model's tables and variables on the cluster.
  // Errors: InvalidArgument naming the key of the job that cannot be; those of the strategy.
  static absl::StatusOr<std::unique_ptr<Model>> Create(ParameterServerStrategy* strategy,
                                                       const JobSpec& job,
                                                       const PerWorkerDataset& dataset);

  // One training step on a batch. Result: "loss", f32 scalar, the batch's mean. When the job's data
  // set gives "example_id", it also counts the visits of its examples; see visits.h.
  absl::StatusOr<RemoteFunction> DefineTrain();
  // Evaluates a batch. Results: for ranking models "rank", i64 [B], the number of names that score
  // higher than the true one, without those known for the example. For others "prediction", f32 [B]
  // or [B, classes] (a probability, a class's probability, or a number) and "label", f32 [B]. For a
  // word2vec "loss", the sum over the batch's pairs, and "pairs", how many they are, f32 scalars.
  absl::StatusOr<RemoteFunction> DefineEvaluate(Part part);
  // two_tower with a history: scores of all items, f32 [B, items]. Arguments: the histories' values
  // i64 [n] and offsets i32 [B + 1].
  absl::StatusOr<RemoteFunction> DefineScore();

  // It is measured by what people know of words, and on a held-out part by its loss alone.
  bool has_words() const { return job_.model.kind == ModelKind::kWord2Vec; }
  // Of a word2vec: the words' vectors.
  const EmbeddingTable& words() const { return tables_.at(job_.model.item.features[0]); }
  bool ranks() const { return job_.model.kind == ModelKind::kTwoTower; }
  bool can_recommend() const;
  // The feature whose values are recommended.
  const std::string& item_feature() const { return job_.model.item.features[0]; }

 private:
  Model(ParameterServerStrategy* strategy, const JobSpec& job, const PerWorkerDataset& dataset);

  absl::Status CreateState();
  absl::Status CreateTables();
  absl::Status CreateDlrm();
  absl::Status CreateDeepFm();
  // Those of deep.features that are numbers.
  std::vector<std::string> NumericNames() const;
  absl::Status CreateLayers(const std::string& name, int64_t inputs,
                            const std::vector<int64_t>& hidden, int64_t outputs);
  absl::Status CreateDense(const std::string& name, Shape shape,
                           proto::InitializerSpec initializer);
  // The width of a tower's concatenated features; how many of them are numeric.
  absl::StatusOr<int64_t> InputWidth(const TowerSpec& tower) const;
  // Of the label, whatever it is: f32 or, where it is a feature, its ids.
  Output Label(FunctionBuilder& f) const;
  // Names that can be answers: the item's values, without the buckets of unknown ones.
  int64_t Candidates() const;

  // Where the values of a feature come from in a function.
  struct FeatureInput {
    Output values, offsets, weights;  // offsets are invalid for a single value
  };
  FeatureInput Input(FunctionBuilder& f, const proto::FeatureSpec& feature) const;
  Output Embed(FunctionBuilder& f, const std::string& table, const proto::FeatureSpec& feature,
               const FeatureInput& input) const;
  Output Features(FunctionBuilder& f, const TowerSpec& tower, bool sum) const;
  Output Layers(FunctionBuilder& f, const std::string& name, Output input, size_t hidden,
                bool last_active = false) const;
  Output Numbers(FunctionBuilder& f) const;
  std::vector<Output> Vectors(FunctionBuilder& f) const;
  Output Dlrm(FunctionBuilder& f) const;
  Output DeepFm(FunctionBuilder& f) const;
  Output UserSide(FunctionBuilder& f) const;
  // The item tower over given rows of its table.
  Output ItemSide(FunctionBuilder& f, Output rows) const;
  Output Normalized(FunctionBuilder& f, Output rows) const;
  Output Linear(FunctionBuilder& f, const TowerSpec& tower) const;
  Output SampledLoss(FunctionBuilder& f) const;
  Output Negatives(FunctionBuilder& f, Output* corrections) const;
  Output AllScores(FunctionBuilder& f, Output user) const;
  // Before the loss's link function: [B] or [B, classes].
  Output Logits(FunctionBuilder& f) const;
  Output PointwiseLoss(FunctionBuilder& f) const;
  SkipGramLoss WordLoss(FunctionBuilder& f) const;
  Output DenseValue(FunctionBuilder& f, const std::string& name) const;
  bool has_table(const std::string& name) const { return tables_.count(name) > 0; }

  ParameterServerStrategy* strategy_;
  const JobSpec job_;
  const PerWorkerDataset dataset_;
  std::map<std::string, EmbeddingTable> tables_;
  std::map<std::string, Variable> dense_;
  std::optional<EmbeddingTable> visits_;
};

}  // namespace coxswain
