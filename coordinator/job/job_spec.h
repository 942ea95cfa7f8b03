// A job, read and checked: what JOB.yaml says, with every default filled in. docs/job.md tells what
// the keys mean; here is what they become.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coxswain/cluster.h"
#include "protos/dataset.pb.h"
#include "protos/variable.pb.h"
#include "runtime/data/ticket.h"
#include "coxswain/tensor.h"

namespace coxswain {

enum class ModelKind {
  kTwoTower,
  kMatrixFactorization,
  kWideDeep,
  kMlp,
  kLogisticRegression,
  kDlrm,
  kDeepFm,
  kWord2Vec
};
enum class LossKind {
  kSampledSoftmax,
  kSigmoidCrossEntropy,
  kSoftmaxCrossEntropy,
  kMse,
  kNegativeSampling
};
enum class Activation { kRelu, kTanh, kSigmoid };
enum class Distribution { kUniform, kPopularity };
enum class MetricKind {
  kAuc,
  kLogLoss,
  kAccuracy,
  kRmse,
  kHitRate,
  kWordSimilarity,
  kAnalogies,
  kValidationLoss
};
enum class PartitionerKind { kFixedShards, kMinSize, kMaxSize };

// Features (by name) and the layers on top of them.
struct TowerSpec {
  std::vector<std::string> features;
  std::vector<int64_t> hidden;  // widths; may be empty
};

// Which members count depends on the kind; the others are as constructed.
struct ModelSpec {
  ModelKind kind = ModelKind::kMlp;
  // two_tower: the two sides (item: one feature, the label). Without hidden layers a side is the
  // sum of its features' vectors, all of width `dim`; with them their concatenation goes through
  // the hidden layers and a last linear layer of width `dim`. matrix_factorization: one feature
  // each, no hidden layers.
  TowerSpec user, item;
  // wide_deep, deepfm: both; mlp: only deep; logistic_regression: only wide (without hidden
  // layers); dlrm: only deep, whose hidden layers are those on the products.
  TowerSpec wide, deep;
  std::vector<int64_t> bottom;  // dlrm: widths of the hidden layers on the numbers
  int64_t dim = 0;              // two_tower, matrix_factorization, dlrm, deepfm, word2vec
  bool biases = false;  // matrix_factorization: user's, item's and the mean; two_tower: the item's
  bool normalize = false;                     // two_tower: both sides to length 1
  Activation activation = Activation::kRelu;  // of hidden layers
  int64_t classes = 1;                        // mlp: outputs
};

struct LossSpec {
  LossKind kind = LossKind::kMse;
  // sampled_softmax, negative_sampling: drawn for each step, shared by its batch
  int64_t negatives = 0;
  Distribution distribution = Distribution::kUniform;
  double distortion = 1;          // of kPopularity: by the count to this power
  double negatives_per_pair = 0;  // negative_sampling: how many all of them count as, together
  double temperature = 1;         // scores are divided by it
};

// One embedding table of the model, with the options that hold for it. The number of rows is known
// once the data set's vocabularies are.
struct TableSpec {
  enum class Role {
    kEmbedding,  // "<feature>", rows of `dim`
    kBias,       // "<feature>_bias", rows of 1
    kOutput,     // "<feature>_output", rows of `dim`: words as what they stand beside
    kLinear,  // "<feature>_linear", rows of 1: the weights of a wide part or a logistic regression
  };
  std::string name;
  std::string feature;
  Role role = Role::kEmbedding;
  int64_t dim = 1;
  proto::OptimizerSpec optimizer;
  proto::InitializerSpec initializer;
  DType dtype = DType::kF32;                 // or kBF16
  std::string rounding;                      // of bf16
  DType wire_dtype = DType::kF32;            // or kBF16
  std::optional<proto::HashTableSpec> hash;  // of features with FeatureSpec.id
  int64_t shards = 0;                        // 0: as the partitioner says
  std::string sharding = "mod";              // TableOptions::strategy
};

struct MetricSpec {
  MetricKind kind = MetricKind::kRmse;
  int64_t k = 0;     // of hit_rate
  std::string name;  // as written: "hit_rate@10"
  bool higher_is_better() const {
    return kind != MetricKind::kRmse && kind != MetricKind::kLogLoss &&
           kind != MetricKind::kValidationLoss;
  }
};

struct EarlyStopping {
  std::string metric;    // the name of one of evaluate.metrics
  int64_t patience = 0;  // evaluations without a gain of more than min_delta
  double min_delta = 0;
};

struct TrainSpec {
  int64_t epochs = 0;  // one of epochs and steps is 0
  int64_t steps = 0;
  int64_t batch_size = 0;
  int64_t steps_per_function = 1;
  int64_t closures_in_flight = 3;  // per worker
  uint64_t seed = 0;
  int64_t log_every = 0;      // steps; 0: never
  bool compute_bf16 = false;  // products of matrices in bf16
  ErrorPolicy on_error = ErrorPolicy::kFailFast;
  std::optional<EarlyStopping> early_stopping;
};

struct EvaluateSpec {
  bool enabled = false;  // there is a part to evaluate on, or a file of words
  Part part = Part::kValidation;
  std::vector<MetricSpec> metrics;
  int64_t every_epochs = 1;
  int64_t max_examples = 0;  // 0: all
  int64_t batch_size = 0;
  std::vector<std::string>
      show;  // groups (values of the history's group_by) to print suggestions for
  int64_t show_top = 0;
  bool popularity_baseline = false;
  std::string word_similarity, analogies;  // files; empty: none
};

// The partitioners of TensorFlow. A table has no more shards than rows.
struct PartitionerSpec {
  PartitionerKind kind = PartitionerKind::kMinSize;
  int64_t shards = 0;           // fixed_shards; 0: one per parameter server
  int64_t min_shard_bytes = 0;  // min_size
  int64_t max_shard_bytes = 0;  // max_size
  int64_t max_shards = 0;       // min_size: 0: one per parameter server; max_size: 0: no limit
};

struct CheckpointSpec {
  std::string directory;     // empty: none
  double every_seconds = 0;  // 0: not by time
  int64_t every_steps = 0;   // 0: not by steps
  int64_t keep = 1;
  bool incremental = true;
  PsLossPolicy on_ps_loss = PsLossPolicy::kRollback;
  double ps_return_seconds = 0;
  bool rebalance = true;
};

struct ClusterSpec {
  double lease_seconds = 0;
  double timeout_seconds = 0;
  int64_t quarantine_after = 0;
  double closure_timeout_seconds = 0;  // 0: by what steps have taken
};

struct JobSpec {
  std::string name;
  std::string file;
  proto::DatasetSpec dataset;
  ModelSpec model;
  LossSpec loss;
  std::vector<TableSpec> tables;  // all of the model's
  proto::OptimizerSpec dense_optimizer;
  TrainSpec train;
  EvaluateSpec evaluate;
  PartitionerSpec partitioner;
  CheckpointSpec checkpoint;
  ClusterSpec cluster;

  // Where each key stands: "features.history.column" -> "job.yaml:9:5" (or "--set ..."). Elements
  // of lists go by their name, or by their index where they have none.
  std::map<std::string, std::string> locations;

  // The place of a key; of what holds it, when the key is not in the file (its default is meant).
  std::string Where(absl::string_view key_path) const;
  // Null when there is none.
  const proto::FeatureSpec* FindFeature(absl::string_view feature) const;
  const TableSpec* FindTable(absl::string_view table) const;
  // Whether each example has a label of its own: recommenders and words have their names instead.
  bool HasLabel() const {
    return model.kind != ModelKind::kTwoTower && model.kind != ModelKind::kWord2Vec;
  }
};

// Schedules that last as long as the training learn how many steps that is; it is known once the
// data is read.
void CompleteSchedules(int64_t steps, JobSpec* job);

// The feature of a libsvm data set.
inline constexpr char kLibsvmFeature[] = "features";

}  // namespace coxswain
