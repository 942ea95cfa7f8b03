// The kinds of models that a job can name. Each is one file in coordinator/model/kinds, and a line
// in the list there. The schema, the parser, the checks of docs/job.md, and the code that trains
// and evaluates models depend only on this description.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/variable_inputs.h"
#include "runtime/graph/graph.h"

namespace coxswain {
class FunctionBuilder;
}  // namespace coxswain

namespace coxswain::model {
class ModelParts;
}  // namespace coxswain::model

namespace coxswain::job {

struct JobReader;
struct ModelKind;

// What a model learns to predict, and so how it is evaluated.
enum class Predicts {
  kLabel,       // each example has a label
  kItem,        // one of a feature's values; evaluated by its rank among all
  kNeighbours,  // which words occur near each other; evaluated by tests of word vectors
};

// A table that the model needs for a feature. Numeric features have none.
struct TableUse {
  std::string feature;
  TableSpec::Role role = TableSpec::Role::kEmbedding;
  double stddev = 0;  // standard deviation of the initial values; 0: zeros
  int64_t width = 1;  // for kBias and kLinear
};

inline constexpr double kEmbeddingStddev = 0.1;

// What a score can be taken for.
inline constexpr PredictionKind kChanceNumberOrOrder[] = {
    PredictionKind::kProbability, PredictionKind::kNumber, PredictionKind::kOrder};

// One model, as described by the section `model`. Thread model: a value; const methods may be
// called from any thread.
class ModelSpec {
 public:
  virtual ~ModelSpec() = default;

  // ---- The job's side.

  // The keys with their values, for messages and tests: "dim: 8, user: {feature: u}".
  virtual std::string Options() const = 0;
  // Checks the keys against the rest of the file, fills in omitted ones (lists of features) and
  // sets the widths of features. Adds errors to the reader's problems.
  virtual void Complete(const JobReader& reader) = 0;
  // The tables, in the order in which they are created and shown.
  virtual std::vector<TableUse> Tables() const = 0;
  // Whether each step of training has gradients of all rows of this one of the job's tables, and
  // not only of those that its batch looks up. `job` is the one whose model this is.
  virtual bool UpdatesAllRows(const JobSpec& job, const TableSpec& table) const;
  // Number of classes; labels are 0..classes-1. 1: a label is a number, or 0 or 1.
  virtual int64_t classes() const { return 1; }
  // For models that do not predict a label: the feature whose values they predict.
  virtual std::string item() const { return ""; }
  // The features from which an item is predicted.
  virtual std::vector<std::string> user_features() const { return {}; }
  // Of models that predict a label: whose score for which items can be ranked; none of others.
  struct Sides {
    std::string user, item;  // features
  };
  virtual Sides ranks() const { return {}; }
  // Of variables that are no tables: those whose rows or columns stand for features of the job,
  // whose model this is, or for classes.
  virtual InputsByVariable Inputs(const JobSpec& job) const;

  // ---- The graph's side.

  // Creates the variables that are not tables; the tables exist already. Errors: those of the
  // strategy.
  virtual absl::Status CreateVariables(model::ModelParts* parts) const;
  // Adds the nodes that minimize the loss of a batch; returns its mean, f32 scalar.
  virtual Output Train(FunctionBuilder& f, const model::ModelParts& parts) const = 0;
  // Adds the results that Model::DefineEvaluate promises, with ModelParts::ResultExamples at the
  // end.
  virtual void Evaluate(FunctionBuilder& f, const model::ModelParts& parts) const = 0;
  // Adds the results of predicting a batch without labels, f32. kLabel: "score", [B] or [B,
  // classes], before the loss's link function, and "prediction", the same after it. kItem: "score",
  // [B, items].
  virtual void Predict(FunctionBuilder& f, const model::ModelParts& parts) const;
  // Of kItem: adds the `k` items that score highest, best first, for users whose features all have
  // these values: "scores", f32 [B, k], and "ids", i64 [B, k]. k is at most the number of items.
  virtual void TopItems(FunctionBuilder& f, const model::ModelParts& parts, Output values,
                        Output offsets, int64_t k) const;

 private:
  friend bool ReadModel(const JobReader& reader);
  friend const ModelKind& KindOf(const ModelSpec& model);
  const ModelKind* kind_ = nullptr;
};

struct ModelKind {
  const char* name;   // as model.kind has it
  const char* score;  // the meaning of its score, as in the table of docs/job.md
  // The possible meanings of its score: it can be trained with any loss of these, by default the
  // first one.
  absl::Span<const PredictionKind> says;
  absl::Span<const PredictionKind> says_of_classes = {};  // the same if `classes` is more than 1
  Predicts predicts = Predicts::kLabel;
  absl::Span<const SchemaKey> keys;  // keys of the section `model`, in addition to `kind`
  std::shared_ptr<ModelSpec> (*read)(const SectionView& model);
};

const ModelKind& KindOf(const ModelSpec& model);
// The losses that it can be trained with, the default first.
std::vector<const LossKind*> LossesOf(const ModelKind& kind, int64_t classes);
// What a model looks at of a history that is in its order: all of it, or the last `max_values`.
absl::Span<const int64_t> SeenOf(const JobSpec& job, absl::Span<const int64_t> history);
// The names of those that predict this, for messages: "two_tower".
std::string KindsThat(Predicts predicts);
// The feature whose values are the items that a model can suggest; empty of models without items.
std::string ItemOf(const ModelSpec& model);
// The feature whose values are the users of such a model, where nothing else describes them: then
// it can be asked for a user by such a value. Empty of others.
std::string UserOf(const JobSpec& job);
// Whether each example has a label.
bool HasLabel(const JobSpec& job);
// Whether an evaluation returns the group of each example.
bool MeasuresGroups(const JobSpec& job);
// Whether an evaluation also ranks each example's item.
bool MeasuresRanks(const JobSpec& job);

// All of them, in the order of the list: coordinator/model/kinds/kind_list.cc.
const std::vector<const ModelKind*>& AllModelKinds();
// Null when no kind has this name.
const ModelKind* FindModelKind(absl::string_view name);

// ModelKind::read of a class with a member `options` that the keys are bound to.
template <typename Model, const auto& keys>
std::shared_ptr<ModelSpec> ReadModelKeys(const SectionView& model) {
  auto spec = std::make_shared<Model>();
  ReadKeys(keys, model, &spec->options);
  return spec;
}

}  // namespace coxswain::job
