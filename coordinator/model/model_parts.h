// Building blocks of the kinds of models: the tables and variables of one model, and the parts of
// graphs that several kinds share.
//
// Thread model: one thread at a time, that of the strategy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/job/enum_words.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/variable_maker.h"
#include "coxswain/strategy.h"
#include "runtime/data/dataset.h"

namespace coxswain::model {

enum class Activation { kRelu, kTanh, kSigmoid };

// The matrix and the bias of layer i.
std::string KernelName(const std::string& layers, size_t i = 0);
std::string BiasName(const std::string& layers, size_t i = 0);
// The weights of a number in the linear part, and its bias.
std::string WideName(const std::string& feature);
inline constexpr char kWideBias[] = "wide/bias";

// Batch normalization (Ioffe and Szegedy, 2015).
struct BatchNorm {
  double momentum = 0;  // of the running statistics
  double epsilon = 0;
};

// What hidden layers do with their sums: normalise them, apply the activation, and in training drop
// some of the results.
struct LayerStyle {
  Activation activation = Activation::kRelu;
  bool layer_norm = false;
  double dropout = 0;
  std::optional<BatchNorm> batch_norm = std::nullopt;

  bool normalizes() const { return layer_norm || batch_norm.has_value(); }
};

}  // namespace coxswain::model

namespace coxswain::job {

template <>
struct EnumWords<model::Activation> {
  static constexpr EnumWord<model::Activation> kAll[] = {{"relu", model::Activation::kRelu},
                                                         {"tanh", model::Activation::kTanh},
                                                         {"sigmoid", model::Activation::kSigmoid}};
};

}  // namespace coxswain::job

namespace coxswain::model {

class ItemCatalogue;

class ModelParts {
 public:
  using Names = std::vector<std::string>;

  // `variables` and `data` outlive it.
  ModelParts(VariableMaker* variables, const job::JobSpec& job, const data::Dataset& data)
      : variables_(variables), job_(job), data_(data) {}

  const job::JobSpec& job() const { return job_; }
  const data::Dataset& data() const { return data_; }
  bool has_table(const std::string& name) const { return tables_.count(name) > 0; }
  const EmbeddingTable& table(const std::string& name) const { return tables_.at(name); }
  // Of all variables that are no tables.
  Names DenseNames() const {
    Names names;
    for (const auto& [name, variable] : dense_) names.push_back(name);
    return names;
  }
  // What describes items beside their ids, see item_catalogue.h; null where nothing does.
  const ItemCatalogue* items() const { return items_.get(); }
  void set_items(std::shared_ptr<const ItemCatalogue> items) { items_ = std::move(items); }

  // ---- State. Errors: InvalidArgument naming the key of the job that cannot be; those of the
  // VariableMaker.

  // Creates the tables of the job.
  absl::Status CreateTables();
  absl::Status CreateDense(const std::string& name, Shape shape,
                           proto::InitializerSpec initializer);
  // Hidden layers of these widths.
  absl::Status CreateHidden(const std::string& name, int64_t inputs,
                            const std::vector<int64_t>& widths, const LayerStyle& style);
  // The same, and a last one.
  absl::Status CreateLayers(const std::string& name, int64_t inputs,
                            const std::vector<int64_t>& hidden, int64_t outputs,
                            const LayerStyle& style = {});
  // Hidden layers and a last one that gives the model's score, or the task's. Its bias begins with
  // FirstScore.
  absl::Status CreateScore(const std::string& name, int64_t inputs,
                           const std::vector<int64_t>& hidden, const LayerStyle& style,
                           const job::TaskSpec* task = nullptr);
  // The score of the mean label of the training part, see LossSpec::FirstScore; 0 where labels are
  // not known, and where training goes on from another model, which has learnt it already. A model
  // that began with other scores would first learn how often labels are 1, by every row of its
  // tables.
  double FirstScore(const job::TaskSpec* task = nullptr) const;
  // The weights of numbers and the bias of Linear. That of a single output begins with FirstScore.
  absl::Status CreateLinear(const Names& features, int64_t outputs = 1);

  // ---- Pieces of a graph. B: examples of the batch.

  // Whether the nodes built from now on are for training, in which layers apply dropout.
  void set_training(bool training) {
    training_ = training;
    dropped_ = 0;
  }
  // Minimizes a loss, with gradients clipped as the job says.
  void Minimize(FunctionBuilder& f, Output loss) const;

  Output DenseValue(FunctionBuilder& f, const std::string& name) const;
  // The label: f32, or ids if it is a feature.
  Output Label(FunctionBuilder& f) const;
  // The weights of the examples, f32 [B]; invalid if the data has no weights.
  Output Weights(FunctionBuilder& f) const;
  // The mean of a batch's losses, f32 [B]: sum(weight * loss) / sum(weight).
  Output MeanLoss(FunctionBuilder& f, Output losses) const { return MeanOf(f, losses, Weights(f)); }
  // The same with weights f32 [B]; invalid: all are 1. Whatever the loss of an example of weight 0
  // is, it is left out.
  static Output MeanOf(FunctionBuilder& f, Output losses, Output weights);
  // The same labels, f32 [B], but 0 for an example of weight 0, whose label may be any number.
  static Output CountedLabels(FunctionBuilder& f, Output labels, Output weights);
  // Of each example, i64 [B]: how many items have a higher score (f32 [B, rows of the item's
  // table]) than its own, without those that are known for it.
  Output Rank(FunctionBuilder& f, const std::string& item, Output scores) const;
  // The same where an item's score is the product of x, f32 [B, dim], with its row, scaled and
  // added to as `scored` says: the parameter servers rank their own rows, and no table is read.
  Output FactorizedRank(FunctionBuilder& f, const std::string& item, Output x,
                        CandidateOptions scored) const;
  // Rows of the item's table that can be answers: all but the buckets of unknown values.
  int64_t Candidates(const std::string& item) const;
  // Of an evaluation, behind its other results: "group", where examples belong together, and
  // "weight", where they have weights.
  void ResultExamples(FunctionBuilder& f) const;

  // The source of a feature's values in a function.
  struct FeatureInput {
    Output values, offsets, weights;  // offsets are invalid for a single value
  };
  FeatureInput Input(FunctionBuilder& f, const proto::FeatureSpec& feature) const;
  // [B, dim]: rows of the table for the feature's values, combined as the feature says.
  Output Embed(FunctionBuilder& f, const std::string& table, const proto::FeatureSpec& feature,
               const FeatureInput& input) const;
  Output Embed(FunctionBuilder& f, const std::string& table, const std::string& feature) const;

  // The width of features side by side.
  int64_t InputWidth(const Names& features) const;
  // [B, InputWidth], or [B, dim] of their sum.
  Output SideBySide(FunctionBuilder& f, const Names& features) const;
  Output Sum(FunctionBuilder& f, const Names& features) const;
  // The names of the numeric features; their values as [B, n], invalid if there are none.
  Names NumericNames(const Names& features) const;
  Output Numbers(FunctionBuilder& f, const Names& features) const;
  int64_t NumbersWidth(const Names& features) const;
  // One [B, dim] for each feature that is not numeric.
  std::vector<Output> Vectors(FunctionBuilder& f, const Names& features) const;

  // So many hidden layers.
  Output Hidden(FunctionBuilder& f, const std::string& name, Output input, size_t layers,
                const LayerStyle& style) const;
  // `hidden` layers and a last one, linear unless it is to be active too.
  Output Layers(FunctionBuilder& f, const std::string& name, Output input, size_t hidden,
                const LayerStyle& style, bool last_active = false) const;
  // The scale and the shift of Norm.
  absl::Status CreateNorm(const std::string& name, int64_t width);
  // A row's numbers with mean 0 and variance 1, times a scale, plus a shift.
  Output Norm(FunctionBuilder& f, const std::string& name, Output x) const;
  // In training some numbers are 0, and the others scaled up. Which ones goes by the number of this
  // call since training was set, and not by what nodes there are, which depend on shards.
  Output Dropped(FunctionBuilder& f, double rate, Output x) const;
  // [B], or [B, outputs] of several: the sum of weights: one number a row of a categorical feature,
  // weight times value of a numeric one, its weights times a vector.
  Output Linear(FunctionBuilder& f, const Names& features, int64_t outputs = 1) const;

 private:
  absl::Status CreateLayer(const std::string& name, size_t i, int64_t inputs, int64_t outputs,
                           double bias = 0);
  std::vector<Output> Features(FunctionBuilder& f, const Names& features) const;
  // Layer i: x times its matrix, plus its bias; active if `relu`.
  Output Sums(FunctionBuilder& f, const std::string& name, size_t i, Output x, bool relu) const;
  // [B, 1] of a number, [B, width] of a vector.
  Output Number(FunctionBuilder& f, const std::string& name) const;
  // What a step changes by itself, and no gradient does: one shard, without an optimizer.
  absl::Status CreateState(const std::string& name, Shape shape,
                           proto::InitializerSpec initializer);
  // Of layer i: normalised as it says, and dropped.
  Output Normalized(FunctionBuilder& f, const std::string& layers, size_t i,
                    const LayerStyle& style, Output x) const;
  Output OverBatch(FunctionBuilder& f, const std::string& layers, size_t i, const BatchNorm& norm,
                   Output x) const;
  void MoveState(FunctionBuilder& f, const std::string& name, Output towards,
                 double momentum) const;

  VariableMaker* const variables_;
  const job::JobSpec job_;
  const data::Dataset& data_;
  std::map<std::string, EmbeddingTable> tables_;
  std::map<std::string, Variable> dense_;
  std::shared_ptr<const ItemCatalogue> items_;
  bool training_ = false;
  mutable uint64_t dropped_ = 0;  // calls of Dropped, which adds nodes and changes nothing else
};

}  // namespace coxswain::model
