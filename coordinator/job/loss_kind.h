// The losses that a job can name. Each is one file of coordinator/model/losses, and a line in the
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

// What the numbers are that a model trained with a loss says; metrics go by it.
enum class PredictionKind {
  kProbability,  // of a label that is 0 or 1, f32 [B]
  kClasses,      // a probability for each class, f32 [B, classes]
  kNumber,       // f32 [B]
  kRank,         // of the true item among all
  kPairs,        // a loss of pairs of words
  kTasks,        // for each task what its loss says, f32 [B, tasks]
  kOrder,        // a number that orders the rows of a query, f32 [B]
};

// What a label that is a number has to be.
enum class LabelRange {
  kAny,
  kZeroToOne,
  kClass,  // an integer in 0..classes-1
  kGrade,  // 0 to 30
};

// Names that are drawn for each step, shared by its batch, to stand for all others.
struct SamplingSpec {
  int64_t negatives = 0;
  Distribution distribution = Distribution::kUniform;
  double distortion = 1;          // of kPopularity: by the count to this power
  double negatives_per_pair = 0;  // how many all of them count as, together; 0: all of them
  double temperature = 1;         // scores are divided by it
  // What an example is known to have (its item, its history) is no negative of it.
  bool reject_known = false;
};

// Of a loss of rankings: what the score of an example's item is held against.
enum class Against {
  kDrawn,  // items that are drawn for each step
  kBatch,  // the items of its batch
  kAll,    // all items
};

// The scores that a loss of rankings is made of.
struct Ranking {
  Output own;         // of each example's item, f32 [B]
  Output others;      // of what it is held against, f32 [B, N]; without their biases
  Output biases;      // of those, f32 [N]; invalid: none
  Output own_ids;     // i64 [B]
  Output other_ids;   // i64 [N]; of kAll invalid: their column is their id
  Output known;       // f32 [B, N], 1 where the example is known to have it; invalid: not looked at
  Output correction;  // of kDrawn: log(1 / (N p(id))), f32 [N] or one number
  Output own_log_q, log_q;  // of kBatch: log of how often an item is in the data, f32 [B], [N]
};

// One loss, as the section `loss` describes it. Thread model: a value.
class LossSpec {
 public:
  virtual ~LossSpec() = default;

  // Adds errors to the reader's problems.
  virtual void Check(const JobReader& reader) const;
  // Null where nothing is drawn. The models that sample build the loss by it.
  virtual const SamplingSpec* sampling() const { return nullptr; }
  // Of rankings.
  virtual Against against() const { return Against::kDrawn; }
  virtual double temperature() const;  // scores are divided by it
  // Whether Ranking::known is looked at.
  virtual bool rejects_known() const;
  // Of rankings: of each example, f32 [B].
  virtual Output PerRanking(FunctionBuilder& f, const Ranking& ranking) const;
  // Of each example, f32 [B], by what the model says before the link function: f32 [B] or
  // [B, classes]. `label` is f32 or, where it is a feature, ids.
  virtual Output PerExample(FunctionBuilder& f, Output logits, Output label) const;
  // Of kOrder: of each query, f32 [Q], by the scores and labels of its rows, f32 [B], which are
  // those from one offset to the next, i32 [Q + 1].
  virtual Output PerQuery(FunctionBuilder& f, Output scores, Output label, Output offsets) const;
  // The link function.
  virtual Output Predict(FunctionBuilder& f, Output logits) const;

 private:
  friend const LossKind& KindOf(const LossSpec& loss);
  friend std::shared_ptr<const LossSpec> ReadLoss(const JobReader& reader, const SectionView& view);
  const LossKind* kind_ = nullptr;
};

struct LossKind {
  const char* name;  // as loss.kind has it
  PredictionKind prediction;
  LabelRange labels = LabelRange::kAny;
  bool of_words = false;  // of kRank: also of the pairs of a model that learns neighbours
  absl::Span<const SchemaKey> keys = {};  // of the section `loss`, beside `kind`
  std::shared_ptr<LossSpec> (*read)(const SectionView& loss);
};

const LossKind& KindOf(const LossSpec& loss);

// All of them, in the order of the list: coordinator/model/losses/loss_list.cc.
const std::vector<const LossKind*>& AllLossKinds();
// Null when there is none of this name.
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
