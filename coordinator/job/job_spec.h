// A job, read and checked: the content of JOB.yaml, with every default filled in. docs/job.md
// defines the keys; these structs hold their values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coxswain/cluster.h"
#include "coxswain/tensor.h"
#include "kernels/compute.h"
#include "protos/dataset.pb.h"
#include "protos/variable.pb.h"
#include "runtime/data/ticket.h"

namespace coxswain::job {

class ModelSpec;    // coordinator/job/model_kind.h
class LossSpec;     // coordinator/job/loss_kind.h
struct MetricKind;  // coordinator/job/metric_kind.h

enum class PartitionerKind { kFixedShards, kMinSize, kMaxSize };
// Whether an epoch's examples are dealt out to the workers, or each worker shuffles them all.
enum class VisitationKind { kExactlyOnce, kPerWorker };

// One embedding table of the model, with its options. The number of rows is known once the data
// set's vocabularies are.
struct TableSpec {
  enum class Role {
    kEmbedding,  // "<feature>", rows of `dim`
    kBias,       // "<feature>_bias", rows of 1
    kOutput,     // "<feature>_output", rows of `dim`: the vectors of words as contexts
    kLinear,  // "<feature>_linear", rows of 1: the weights of a wide part or a logistic regression
  };
  // Vectors by word: see model/rows_file.h.
  struct RowsFile {
    std::string path;
    std::string words, tensor;  // for a safetensors or npz file
  };
  std::string name;
  std::string feature;
  Role role = Role::kEmbedding;
  int64_t dim = 1;
  proto::OptimizerSpec optimizer;
  proto::InitializerSpec initializer;
  std::optional<RowsFile> rows_file;         // used instead of `initializer` for the rows in the
                                             // file
  bool trainable = true;                     // false: rows keep their initial values
  DType dtype = DType::kF32;                 // or kBF16
  std::string rounding;                      // for bf16
  DType wire_dtype = DType::kF32;            // or kBF16
  std::string device = "cpu";                // TableOptions::device
  std::optional<proto::HashTableSpec> hash;  // for features with FeatureSpec.id
  int64_t shards = 0;                        // 0: as the partitioner says
  std::string sharding = "mod";              // TableOptions::strategy
};

struct MetricSpec {
  const MetricKind* kind = nullptr;
  int64_t k = 0;     // of kinds that have one
  std::string name;  // as written: "hit_rate@10"; of a task: "click/auc"
  size_t task = 0;   // of JobSpec.tasks, where there are any
  // Of so many tasks from that one on, the mean over those for which it is defined.
  size_t tasks = 1;
};

// What a model of several tasks learns of one of dataset.labels().
struct TaskSpec {
  std::string name;
  std::string list;  // of a class of a list of labels: the list's name
  std::shared_ptr<const LossSpec> loss;
  double loss_weight = 1;
};

// How the gradients of a step are clipped.
enum class ClipKind { kValue, kNorm, kGlobalNorm };
struct ClipSpec {
  ClipKind kind = ClipKind::kGlobalNorm;
  double limit = 0;
};

struct EarlyStopping {
  std::string metric;    // the name of one of evaluate.metrics
  int64_t patience = 0;  // evaluations without a gain of more than min_delta
  double min_delta = 0;
};

// Files that come while the job runs.
struct FollowSpec {
  bool enabled = false;
  std::string end;          // a file of this name: no more come; empty: none is looked for
  double idle_seconds = 0;  // without a new file, after which no more come; 0: for ever
};

// Makes the learning rates smaller when a metric no longer gets better.
struct ReduceOnPlateau {
  std::string metric;    // the name of one of evaluate.metrics
  double factor = 0;     // by which they are multiplied
  int64_t patience = 0;  // evaluations without a gain of more than min_delta
  double min_delta = 0;
  double min_factor = 0;  // of what the job says they never are less than this
};

// Exponential moving averages of the weights, which are what is evaluated, saved and served.
struct EmaSpec {
  double decay = 0;
};

struct TrainSpec {
  int64_t epochs = 0;  // exactly one of epochs and steps is 0
  int64_t steps = 0;
  int64_t batch_size = 0;
  int64_t steps_per_function = 1;
  int64_t closures_in_flight = 3;  // per worker
  uint64_t seed = 0;
  int64_t log_every = 0;                    // steps; 0: never
  ComputeType compute = ComputeType::kF32;  // for matrix products
  DeviceChoice device = DeviceChoice::kAuto;
  bool shuffle = true;
  VisitationKind visitation = VisitationKind::kExactlyOnce;
  ErrorPolicy on_error = ErrorPolicy::kFailFast;
  std::optional<EarlyStopping> early_stopping;
  std::optional<ReduceOnPlateau> reduce_on_plateau;
  Consistency consistency;
  bool deterministic = false;  // the same files whatever the number of workers, kills and timing
  std::optional<ClipSpec> clip;
  std::optional<EmaSpec> ema;
};

// Which of a user's other items are left out of the candidates when an item is ranked.
enum class KnownItems {
  kAll,       // all of the user's items, of all parts
  kTraining,  // the user's items in the training part
};

struct EvaluateSpec {
  bool enabled = false;  // there is a part to evaluate on, or a file of words
  Part part = Part::kValidation;
  std::vector<MetricSpec> metrics;
  std::vector<std::string> metric_names;  // as in the file; empty: the loss's defaults
  std::string group;  // a feature: examples with the same value belong together; empty: none
  std::vector<std::string> slices;  // features: metrics of the examples with each of their values
  KnownItems exclude_known = KnownItems::kAll;
  int64_t every_epochs = 1;
  int64_t every_steps = 0;   // within epochs, too; 0: not
  double every_seconds = 0;  // of training, within epochs, too; 0: not
  int64_t bootstrap = 0;     // replicates; 0: no intervals
  int64_t max_examples = 0;  // 0: all
  int64_t batch_size = 0;
  std::vector<std::string>
      show;  // groups (values of the history's group_by) to print suggestions for
  int64_t show_top = 0;
  bool suggest_self = true;  // a group may be suggested the item of its own name
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

struct ParameterServersSpec {
  DType dense_wire_dtype = DType::kF32;  // or kBF16
  std::string table_device = "cpu";      // of tables that do not say
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
  double closure_timeout_seconds = 0;  // 0: derived from the duration of earlier steps
};

// L2 penalties of dense variables, where these are not those of their optimizer.
struct DenseL2 {
  struct Layer {
    std::string name;  // of a variable, or what names begin with, up to a '/'
    double l2 = 0;
  };
  std::optional<double> kernels, biases;
  std::vector<Layer> layers;
};

struct JobSpec {
  std::string name;
  std::string file;
  proto::DatasetSpec dataset;
  FollowSpec follow;
  // Never null in a job that ParseJob returns.
  std::shared_ptr<const ModelSpec> model;
  std::shared_ptr<const LossSpec> loss;
  std::vector<TaskSpec> tasks;    // parallel to dataset.labels(); none: the model has one label
  std::vector<TableSpec> tables;  // all of the model's
  proto::OptimizerSpec dense_optimizer;
  DenseL2 dense_l2;
  TrainSpec train;
  EvaluateSpec evaluate;
  PartitionerSpec partitioner;
  ParameterServersSpec parameter_servers;
  CheckpointSpec checkpoint;
  ClusterSpec cluster;

  // The location of each key: "features.history.column" -> "job.yaml:9:5" (or "--set ...").
  // Elements of lists are identified by their name, or by their index if they have none.
  std::map<std::string, std::string> locations;

  // The location of a key; if the key is not in the file (and has its default), that of its
  // section.
  std::string Where(absl::string_view key_path) const;
  // Null when there is none.
  const proto::FeatureSpec* FindFeature(absl::string_view feature) const;
  const TableSpec* FindTable(absl::string_view table) const;
};

// A metric by a shorter name: "auc" of a job with one label or list of labels, "genre", is its
// "genre/auc". What is no such name stays.
std::string NameOfMetric(const std::vector<TaskSpec>& tasks, const std::string& text);

// Fills in the number of training steps in schedules that last as long as training; it is known
// once the data is read.
void CompleteSchedules(int64_t steps, JobSpec* job);

// The feature of a libsvm data set.
inline constexpr char kLibsvmFeature[] = "features";

}  // namespace coxswain::job
