// ParameterServerStrategy: creates variables, tables, data sets and functions on a cluster.
//
// Creating, defining, reading and writing block; cluster.h says for how long.
//
// Thread model: one thread at a time. Handles that it returns are values and stay valid as long as
// the cluster. They belong to this strategy: another strategy, even on the same cluster, refuses
// them with an error that names both. Several strategies may share a cluster; names of variables
// are unique in the cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coxswain/cluster.h"
#include "coxswain/dataset.h"
#include "coxswain/function_builder.h"
#include "coxswain/optimizers.h"
#include "coxswain/tensor.h"

namespace coxswain::checkpoint {
struct Manifest;
}  // namespace coxswain::checkpoint

namespace coxswain::data {
class Dataset;
}  // namespace coxswain::data

namespace coxswain::function {
struct Partition;
}  // namespace coxswain::function

namespace coxswain {

struct VariableInfo;

// How a variable is cut into shards along its first dimension, with the meaning of TensorFlow's
// tf.distribute.experimental.partitioners.
//
// Returns the number of shards, 1 .. rows (1 for a scalar or an empty variable). A hash table
// without max_rows has -1 rows and counts as infinitely large, so only bounds on the number of
// shards apply.
using Partitioner = std::function<int64_t(DType dtype, const Shape& shape)>;

// `shards`, or one per row if there are fewer rows.
Partitioner FixedShards(int64_t shards);
// The largest number of shards that have at least `min_shard_bytes` each, at most `max_shards`.
Partitioner MinSize(int64_t min_shard_bytes = 256 << 10, int64_t max_shards = 1);
// The smallest number of shards that have at most `max_shard_bytes` each (a row is never cut), at
// most `max_shards` (0: no bound).
Partitioner MaxSize(int64_t max_shard_bytes, int64_t max_shards = 0);

// A dense variable: read and updated whole. Several shards convert to one tensor by concatenation.
// Handles are cheap to copy and thread-safe (immutable).
class Variable {
 public:
  Variable() = default;  // empty: strategies refuse it
  explicit Variable(std::shared_ptr<const VariableInfo> info) : info_(std::move(info)) {}
  const VariableInfo& info() const;  // within Coxswain
  const std::string& name() const;

 private:
  std::shared_ptr<const VariableInfo> info_;
};

// An embedding table [rows, dim]: rows are looked up and updated by id, on their parameter servers.
// A hash table has a row for any 64-bit id that has occurred in training; its rows() is -1.
class EmbeddingTable {
 public:
  EmbeddingTable() = default;  // empty: strategies refuse it
  explicit EmbeddingTable(std::shared_ptr<const VariableInfo> info) : info_(std::move(info)) {}
  const VariableInfo& info() const;  // within Coxswain
  const std::string& name() const;
  int64_t rows() const;
  int64_t dim() const;
  int num_shards() const;

 private:
  std::shared_ptr<const VariableInfo> info_;
};

// The mean of numbers that closures have brought (FunctionBuilder::Update): two sums on a parameter
// server, to which each step adds once. A checkpoint has them as it has any variable.
class MeanMetric {
 public:
  MeanMetric() = default;  // none: strategies refuse it
  explicit MeanMetric(Variable sums) : sums_(std::move(sums)) {}
  const Variable& sums() const { return sums_; }  // f64 [2]: of the numbers, and of their weights

 private:
  Variable sums_;
};

// The area under the ROC curve of predictions that closures have brought, by a histogram of them on
// a parameter server. Otherwise as MeanMetric.
class AucMetric {
 public:
  AucMetric() = default;  // none: strategies refuse it
  explicit AucMetric(Variable histogram) : histogram_(std::move(histogram)) {}
  // f64 [thresholds - 1, 2]: the weights of positive and of negative labels whose prediction is
  // between two thresholds.
  const Variable& histogram() const { return histogram_; }

 private:
  Variable histogram_;
};

struct VariableOptions {
  Shape shape = {};
  DType dtype = DType::kF32;         // f32, f64; i64 for counters
  InitializerSpec initializer = {};  // default: zeros
  OptimizerSpec optimizer = {};      // none: not trained by Minimize
  Partitioner partitioner = {};      // none: the strategy's
  // The type in which values and gradients are sent, as TableOptions::wire_dtype. bf16 only for f32
  // variables.
  DType wire_dtype = DType::kF32;
};

// How rows are assigned to shards; all three give shards the same number of rows.
enum class Sharding : uint8_t {
  kMod,   // row r to shard r % n
  kDiv,   // contiguous ranges
  kHash,  // by a fixed hash of the row, so that neighbouring rows are separated
};

// How updated rows are rounded to bf16.
enum class Rounding : uint8_t {
  kStochastic,  // small steps survive on average
  kNearest,     // small steps are lost
};

// A table with rows for arbitrary ids; a row is created when its id is first updated.
struct HashTableOptions {
  enum class Evict : uint8_t {
    kRecency,    // the least recently updated
    kFrequency,  // the least often updated
  };

  // An id gets its row with its min_count-th update (0 and 1: with the first); until then its
  // gradients are dropped, and counted.
  int64_t min_count = 0;
  // Alternatively, each update of an id without a row creates the row with this probability (0:
  // always). The outcome does not depend on the shards or the order.
  double admission_probability = 0;
  // Rows that no update has touched for this long are evicted. 0: never.
  int64_t ttl_steps = 0;
  double ttl_seconds = 0;
  // The most rows of the whole table, split evenly among its shards; 0: no bound.
  int64_t max_rows = 0;
  std::optional<Evict> evict = {};  // which rows are evicted first; not set: by recency
};

// Where the parameter servers keep a table's rows and their optimizer's slots.
enum class TableDevice : uint8_t {
  kCpu,
  // In the memory of their GPUs, of which each must have one. A worker in the same process (local
  // training in one process) exchanges rows and gradients with them on the GPU, in asynchronous
  // training. For f32, and optimizers that move only the rows of an update.
  kGpu,
  // In files of their --table-dir, of which the system keeps in memory what is used most. For
  // optimizers that move only the rows of an update.
  kDisk,
};

struct TableOptions {
  int64_t rows = 0;
  int64_t dim = 0;
  InitializerSpec initializer = {};
  OptimizerSpec optimizer = {};
  Partitioner partitioner = {};  // none: the strategy's; without that: one shard per PS
  Sharding sharding = Sharding::kMod;
  // kF32 or kBF16. bf16 stores rows in half of the memory; lookups return f32, and slots and
  // updates are f32.
  DType dtype = DType::kF32;
  std::optional<Rounding> rounding = {};  // bf16 only; not set: stochastic
  // The type in which rows and their gradients are sent. bf16, rounded to nearest, halves the bytes
  // for slow networks. Sums are taken in f32.
  DType wire_dtype = DType::kF32;
  TableDevice device = TableDevice::kCpu;
  // If set, the table is a hash table, and `rows` and `sharding` are ignored.
  std::optional<HashTableOptions> hash = {};
};

// A data set that every worker reads by itself, guided by tickets that the coordinator hands out.
class PerWorkerDataset {
 public:
  // The next batch of training examples; nullopt after the last one of the last epoch. Copies of
  // this handle share one position. After CheckpointManager::Restore it goes on with the examples
  // that no closure of the checkpoint uses. So a program that is killed and started again visits
  // each example once an epoch, even with another batch size: the position is saved with the
  // scheduled closures, and a ticket that was handed out but not scheduled is handed out again.
  // With DatasetOptions::drop_remainder every batch is full: if another batch size, or a closure
  // that was cancelled halfway, leaves less than a batch, those examples are dropped too.
  std::optional<Ticket> NextTicket();
  // The next batches of one epoch, at most `count`: fewer at the end of an epoch, none after the
  // last epoch. For a synchronous step (ClusterCoordinator::ScheduleStep).
  std::vector<Ticket> NextTickets(int64_t count);
  // All batches of a part, in order. With `max_examples` > 0 some: of held-out parts by the seed.
  std::vector<Ticket> Tickets(Part part, int64_t batch_size, int64_t max_examples = 0) const;
  int64_t steps_per_epoch() const;

  int64_t num_examples(Part part) const;
  // Number of ids of a categorical feature; 0 when no feature has this name.
  int64_t vocabulary_size(const std::string& feature) const;
  // The values of a categorical feature with a vocabulary, in the order of their ids, as the data
  // have them; ids from there on are buckets of values that are none of these. Empty for a feature
  // whose ids are made otherwise, and when no feature has this name.
  std::vector<std::string> vocabulary(const std::string& feature) const;

  // Within Coxswain. Must not be called on a default-constructed PerWorkerDataset.
  const data::Dataset& data() const;
  uint32_t id() const;
  const data::DatasetOptions& options() const;

 private:
  friend class ParameterServerStrategy;
  struct State;
  std::shared_ptr<State> state_;
};

// Tensors that every worker has made for itself and holds: results of a function that ran there
// once, and again in each life of a worker (ParameterServerStrategy::CreatePerWorkerValues).
// Functions take them as inputs: FunctionBuilder::Value. Workers drop them when the last copy of
// the handle and the last function that takes them are gone and nothing that was scheduled can run
// again.
class PerWorkerValues {
 public:
  PerWorkerValues() = default;  // none: functions refuse it
  // Of the results, in their order.
  std::vector<std::string> names() const;

 private:
  friend class FunctionBuilder;
  friend class ParameterServerStrategy;
  struct State;
  std::shared_ptr<const State> state_;
};

// A function that is registered on the cluster.
class RemoteFunction {
 public:
  RemoteFunction() = default;  // empty: Schedule refuses it
  std::string name() const;
  // Names of the results, in their order.
  std::vector<std::string> results() const;
  // Checks the arguments of a call of Schedule. Errors: InvalidArgument when arguments or a ticket
  // are missing, superfluous, of another type, or of another data set.
  absl::Status CheckCall(const Ticket& ticket, absl::Span<const Tensor> arguments) const;

  // Within Coxswain. How the function is cut while every shard is where the strategy put it. Must
  // not be called on a default-constructed RemoteFunction.
  const function::Partition& partition() const;
  uint32_t plan() const;
  uint32_t dataset() const;
  // Number of the strategy that defined the function; 0: none.
  uint64_t strategy() const;

 private:
  friend class ParameterServerStrategy;
  friend class ClusterCoordinator;
  struct State;
  std::shared_ptr<const State> state_;
};

// What is read of a variable: its weights, or the moving averages of these where it has them.
enum class Values : uint8_t { kWeights, kAverages };

class ParameterServerStrategy {
 public:
  struct Options {
    Partitioner partitioner = {};               // for variables and tables without their own
    ComputeType compute = ComputeType::kF32;    // of the products in all functions
    DeviceChoice device = DeviceChoice::kAuto;  // of all functions
    // On CPUs of one model, a function gives the same bits on any number of threads,
    // as TensorFlow's enable_op_determinism. Costs some percent.
    bool deterministic_ops = false;
    // How closures with updates are applied; what makes no sense is refused by Create and Define.
    // Steps (Consistency::in_steps) want RecoveryOptions::on_ps_loss kRollback.
    Consistency consistency = {};
    // Not 0: beside all variables and tables that have an optimizer, parameter servers keep the
    // exponential moving averages of their values, a += (1 - ema_decay)(w - a) with each update;
    // of a table the rows that the update changes. From 0 to below 1.
    double ema_decay = 0;
    // Within Coxswain. Whether a warning is logged for each variable whose partitioner wants
    // another number of shards than the checkpoint has. A job's depends on the number of PS, which
    // may change.
    bool tell_kept_shards = true;
  };
  explicit ParameterServerStrategy(Cluster cluster) : ParameterServerStrategy(cluster, Options{}) {}
  ParameterServerStrategy(Cluster cluster, Options options);

  // From now on, variables and tables that the checkpoint has are created with its shards: their
  // ids, number and sharding, whatever their partitioners say (a warning is logged where that is
  // another number). Only their placement is new, so the number of PS may differ. Other
  // variables get new ids. Must be called before anything is created. Data sets go on from the
  // checkpoint's positions: the first one that is created takes the position of the checkpoint's
  // first, and so on; failed attempts to create one do not count. Errors: FailedPrecondition when
  // any strategy of the cluster has created something, or when an existing data set has other data;
  // DataLoss when shards of a variable are missing.
  absl::Status UseLayout(const checkpoint::Manifest& manifest);
  // Names of the layout's variables that have not been created yet.
  std::vector<std::string> LayoutLeftOver() const;

  // New shards go to the PS with the fewest bytes so far; shards of a layout are placed so that
  // bytes and measured access are even. Errors: AlreadyExists for a name that any strategy of the
  // cluster uses; InvalidArgument for shapes, optimizers and initializers that are invalid or
  // differ from the layout's (wanted: the layout's, found: these). A failed call has no effect.
  absl::StatusOr<Variable> CreateVariable(const std::string& name, const VariableOptions& options);
  absl::StatusOr<EmbeddingTable> CreateTable(const std::string& name, const TableOptions& options);

  // TensorFlow's tf.keras.metrics.Mean, from zero. Its name is a variable's.
  absl::StatusOr<MeanMetric> CreateMean(const std::string& name);
  // TensorFlow's tf.keras.metrics.AUC, whose thresholds divide 0 to 1 evenly: pairs of labels whose
  // predictions are between the same two count half. Where most predictions are small, as those of
  // clicks, take more. Errors: also InvalidArgument for fewer than 2 thresholds.
  absl::StatusOr<AucMetric> CreateAuc(const std::string& name, int64_t thresholds = 200);

  // Loads the data set here and on all workers.
  // Errors: those of reading, with file, line and column; DataLoss when a worker has other data;
  // FailedPrecondition when the checkpoint that the program goes on from has other data.
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const DatasetBuilder& builder) {
    return CreatePerWorkerDataset(builder.options());
  }
  // Within Coxswain.
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const data::DatasetOptions& options);

  // Each worker runs the function once, with these arguments, and holds its results: a lookup
  // table, say, that is sent to a worker once and not with every closure. A worker that
  // joins, or comes back after it was lost, does so before it gets closures. Random ops give all
  // workers the same. Nothing of it is in checkpoints: a program that starts again makes it again.
  // Errors: InvalidArgument for a function of another strategy, one that reads or updates variables
  // or reads a data set, and for arguments that do not fit; where it fails on a worker that
  // worker's error, with cause kApplication and the name of the task, and then no worker keeps any.
  absl::StatusOr<PerWorkerValues> CreatePerWorkerValues(const RemoteFunction& function,
                                                        const std::vector<Tensor>& arguments = {});

  // Nothing is scheduled on it any more: workers let go of it when no function that reads it is
  // left and nothing that was scheduled can run again. No checkpoint names it from then on.
  // Copies of the handle hand out no tickets.
  void Release(const PerWorkerDataset& dataset);
  // Within Coxswain. Of data sets of the checkpoint that is gone on from, those that were not
  // created again: no checkpoint names them any more.
  void ReleaseOthers();

  using Build = std::function<void(FunctionBuilder&)>;
  // Builds, places, partitions and registers a function. With a data set, its columns can be inputs
  // (FunctionBuilder::Column), and Schedule needs a ticket of it. `part`: whose columns; all parts
  // have the same ones, but for those that are made for evaluations. So a function with results and
  // no update evaluates a part by its tickets (PerWorkerDataset::Tickets), whatever part it was
  // defined for, if that part has its columns. Errors: InvalidArgument for an invalid node, which
  // it names; for a function that has neither a result nor an update; for handles of another
  // strategy.
  absl::StatusOr<RemoteFunction> Define(const std::string& name, const Build& build);
  absl::StatusOr<RemoteFunction> Define(const std::string& name, const PerWorkerDataset& dataset,
                                        const Build& build, Part part = Part::kTraining);

  // Functions that are defined from now on multiply the optimizers' learning rates by this, those
  // that were defined before keep theirs: so a program that finds, between two Joins, that the rate
  // is too high defines its step again. Above 0; 1 at first.
  void set_learning_rate_factor(double factor);

  // The variable's value: all shards as one tensor.
  // What is read here and below has the updates of all closures that are over: while some of them
  // run again, because a parameter server was lost, it waits. A value that takes several requests
  // is read from the beginning if one was lost in between. Errors: here and below InvalidArgument
  // for a handle of another strategy; Unavailable with cause kTaskLost when a parameter server was
  // lost ten times in the middle of one request, or value.
  absl::StatusOr<Tensor> Read(const Variable& variable, Values values = Values::kWeights);
  absl::StatusOr<Tensor> Read(const EmbeddingTable& table, Values values = Values::kWeights);
  // 0 when nothing was brought since the metric was made or reset.
  absl::StatusOr<double> Read(const MeanMetric& metric);
  // Errors: also FailedPrecondition without a positive, or without a negative label.
  absl::StatusOr<double> Read(const AucMetric& metric);
  // From zero again. What closures bring that are not over now comes before it, or after.
  absl::Status Reset(const MeanMetric& metric);
  absl::Status Reset(const AucMetric& metric);
  // What Assign, Reset, WriteShard, WriteIds and RemoveIds write is part of no closure, and does
  // not run again: until a checkpoint has it, and without checkpoints for ever, the loss of a
  // parameter server whose shards, or with kRollback all, would go back to before ends the program
  // with DataLoss. An update in a function (FunctionBuilder::Assign) runs again.
  absl::Status Assign(const Variable& variable, const Tensor& value);
  absl::Status Assign(const EmbeddingTable& table, const Tensor& value);

  // Rows of one shard, by local number, for reading and writing tables larger than memory in
  // pieces.
  absl::StatusOr<Tensor> ReadShard(const VariableInfo& info, int shard, int64_t begin,
                                   int64_t count, Values values = Values::kWeights);
  absl::Status WriteShard(const VariableInfo& info, int shard, int64_t begin, const Tensor& rows);
  // For a hash table: the rows, with their ids, in `count` places of a shard from `begin` on, or in
  // as many of them as fit into one reply: `next` says where to go on.
  struct IdsAndRows {
    Tensor ids, rows;  // i64 [n], [n, dim]
    int64_t next = 0;  // the place to go on with; 0: there are no more
  };
  absl::StatusOr<IdsAndRows> ReadIds(const VariableInfo& info, int shard, int64_t begin,
                                     int64_t count, Values values = Values::kWeights);
  // The same for all shards, one after the other, from the cursor on, which it moves. Each id comes
  // once if the table does not change meanwhile. Errors: OutOfRange when the cursor is done;
  // Aborted when shards went back to a checkpoint, because a parameter server was lost, or moved
  // since its first call: then rows have other places, and another cursor must begin.
  //
  //   for (ParameterServerStrategy::TableCursor at; !at.done();) {
  //     ASSIGN_OR_RETURN(const auto read, strategy.ReadIds(table, 4096, &at));
  struct TableCursor {
    int shard = 0;
    int64_t place = 0;
    int shards = 1;                           // of the table; known after the first call
    std::optional<uint64_t> generation = {};  // of the shards; the same
    bool done() const { return shard >= shards; }
  };
  absl::StatusOr<IdsAndRows> ReadIds(const EmbeddingTable& table, int64_t count,
                                     TableCursor* cursor, Values values = Values::kWeights);
  // Sets the rows of these ids (i64 [n], of any shards) to `rows` [n, dim].
  absl::Status WriteIds(const VariableInfo& info, const Tensor& ids, const Tensor& rows);
  // Removes all rows of a hash table.
  absl::Status RemoveIds(const VariableInfo& info);

  // In order of creation.
  const std::vector<std::shared_ptr<const VariableInfo>>& variables() const;
  const Cluster& cluster() const;
  const Consistency& consistency() const;
  double ema_decay() const;
  // Unique in this process.
  uint64_t number() const;

 private:
  struct State;

  std::shared_ptr<State> state_;
};

}  // namespace coxswain
