// The losses that a job can name. Each is one file in coordinator/model/losses, and a line in the
// list there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_spec.h"
#include "runtime/graph/graph.h"

namespace coxswain {
class FunctionBuilder;
}  // namespace coxswain

namespace coxswain::job {

struct JobReader;
struct LossKind;
class LossSpec;

// A loss from its section, whose kind the schema knows. Adds errors to the reader's problems.
std::shared_ptr<const LossSpec> ReadLoss(const JobReader& reader, const SectionView& view);

enum class Distribution { kUniform, kPopularity };
template <>
struct EnumWords<Distribution> {
  static constexpr EnumWord<Distribution> kAll[] = {{"uniform", Distribution::kUniform},
                                                    {"popularity", Distribution::kPopularity}};
};

// The meaning of the predictions of a model trained with a loss; it determines the possible
// metrics.
enum class PredictionKind {
  kProbability,  // the probability that a label of 0 or 1 is 1, f32 [B]
  kClasses,      // a probability for each class, f32 [B, classes]
  kNumber,       // f32 [B]
  kRank,         // the rank of the true item among all
  kPairs,        // a loss of pairs of words
  kTasks,        // for each task what its loss says, f32 [B, tasks]
  kOrder,        // a number that orders the rows of a query, f32 [B]
};

// The range of a numeric label.
enum class LabelRange {
  kAny,
  kZeroToOne,
  kClass,  // an integer in 0..classes-1
  kGrade,  // 0 to 30
};

// Negatives that are drawn for each step and shared by its batch, as a sample of all other names.
struct SamplingSpec {
  int64_t negatives = 0;
  Distribution distribution = Distribution::kUniform;
  double distortion = 1;          // for kPopularity: weights are counts to this power
  double negatives_per_pair = 0;  // total weight of the negatives; 0: their number
  double temperature = 1;         // scores are divided by it
  // An example's known items (its own, its history) are not used as its negatives.
  bool reject_known = false;
};

// For a loss of rankings: the items with whose scores the score of an example's item is compared.
enum class Against {
  kDrawn,  // items that are drawn for each step
  kBatch,  // the items of its batch
  kAll,    // all items
};

// The inputs of a loss of rankings.
struct Ranking {
  Output own;         // scores of the examples' items, f32 [B]
  Output others;      // scores of the items that they are compared with, f32 [B, N]; without biases
  Output biases;      // biases of those items, f32 [N]; invalid: none
  Output own_ids;     // i64 [B]
  Output other_ids;   // i64 [N]; invalid for kAll, where the id is the column
  Output known;       // f32 [B, N], 1 where the example is known to have the item; invalid: not
                      // used
  Output correction;  // for kDrawn: log(1 / (N p(id))), f32 [N] or one number
  Output own_log_q, log_q;  // for kBatch: log of an item's frequency in the data, f32 [B], [N]
};

// One loss, as described by the section `loss`. Thread model: a value.
class LossSpec {
 public:
  virtual ~LossSpec() = default;

  // Adds errors to the reader's problems.
  virtual void Check(const JobReader& reader) const;
  // Null if no negatives are drawn. Models that sample use it to build the loss.
  virtual const SamplingSpec* sampling() const { return nullptr; }
  // For losses of rankings.
  virtual Against against() const { return Against::kDrawn; }
  virtual double temperature() const;  // scores are divided by it
  // Whether the loss uses Ranking::known.
  virtual bool rejects_known() const;
  // For losses of rankings: the loss of each example, f32 [B].
  virtual Output PerRanking(FunctionBuilder& f, const Ranking& ranking) const;
  // The loss of each example, f32 [B], from the model's scores before the link function: f32 [B] or
  // [B, classes]. `label` is f32, or ids if it is a feature.
  virtual Output PerExample(FunctionBuilder& f, Output logits, Output label) const;
  // Of kOrder: of each query, f32 [Q], by the scores and labels of its rows, f32 [B], which are
  // those from one offset to the next, i32 [Q + 1].
  virtual Output PerQuery(FunctionBuilder& f, Output scores, Output label, Output offsets) const;
  // The link function.
  virtual Output Predict(FunctionBuilder& f, Output logits) const;
  // The score that predicts the labels' mean: what a model without anything else would learn, and
  // begins with. 0 where no single score does.
  virtual double FirstScore(double mean_label) const;

 private:
  friend const LossKind& KindOf(const LossSpec& loss);
  friend std::shared_ptr<const LossSpec> ReadLoss(const JobReader& reader, const SectionView& view);
  const LossKind* kind_ = nullptr;
};

struct LossKind {
  const char* name;  // as loss.kind has it
  PredictionKind prediction;
  LabelRange labels = LabelRange::kAny;
  bool of_words = false;  // for kRank: can also be used for the pairs of a model that learns
                          // neighbours
  absl::Span<const SchemaKey> keys = {};  // keys of the section `loss`, in addition to `kind`
  std::shared_ptr<LossSpec> (*read)(const SectionView& loss);
};

const LossKind& KindOf(const LossSpec& loss);

// All of them, in the order of the list: coordinator/model/losses/loss_list.cc.
const std::vector<const LossKind*>& AllLossKinds();
// Null when no loss has this name.
const LossKind* FindLossKind(absl::string_view name);

// LossKind::read of a class without keys, and of one with a member `options` that the keys are
// bound to.
template <typename Loss>
std::shared_ptr<LossSpec> MakeLoss(const SectionView&) {
  return std::make_shared<Loss>();
}
template <typename Loss, const auto& keys>
std::shared_ptr<LossSpec> ReadLossKeys(const SectionView& loss) {
  auto spec = std::make_shared<Loss>();
  ReadKeys(keys, loss, &spec->options);
  return spec;
}

}  // namespace coxswain::job
