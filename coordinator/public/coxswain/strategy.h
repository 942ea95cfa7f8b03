// ParameterServerStrategy: creates variables, tables, data sets and functions on a cluster.
//
// Thread model: one thread at a time. Handles that it returns are values and stay good as long as
// the cluster. They belong to this strategy: another one, also on the same cluster, refuses them by
// an error that names both. Several strategies may share a cluster; names of variables are the
// cluster's.
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
// The number of shards, 1 .. rows (1 for a scalar or an empty variable). A hash table without
// max_rows has -1 rows: it is taken for one without end, so that the bounds on numbers alone hold.
using Partitioner = std::function<int64_t(DType dtype, const Shape& shape)>;

// `shards`, or one per row if there are fewer rows.
Partitioner FixedShards(int64_t shards);
// As many shards as leave each at least `min_shard_bytes`, at most `max_shards`.
Partitioner MinSize(int64_t min_shard_bytes = 256 << 10, int64_t max_shards = 1);
// As few shards as keep each within `max_shard_bytes` (a row is never cut), at most `max_shards`
// (0: no bound).
Partitioner MaxSize(int64_t max_shard_bytes, int64_t max_shards = 0);

// A dense variable: read and updated whole. Several shards convert to one tensor by concatenation.
// Handles are cheap to copy and thread-safe (immutable).
class Variable {
 public:
  Variable() = default;  // none: strategies refuse it
  explicit Variable(std::shared_ptr<const VariableInfo> info) : info_(std::move(info)) {}
  const VariableInfo& info() const;  // within Coxswain
  const std::string& name() const;

 private:
  std::shared_ptr<const VariableInfo> info_;
};

// An embedding table [rows, dim]: rows are looked up and updated by id, where they live. A hash
// table has a row for any 64-bit id that training has brought; rows() is -1.
class EmbeddingTable {
 public:
  EmbeddingTable() = default;  // none: strategies refuse it
  explicit EmbeddingTable(std::shared_ptr<const VariableInfo> info) : info_(std::move(info)) {}
  const VariableInfo& info() const;  // within Coxswain
  const std::string& name() const;
  int64_t rows() const;
  int64_t dim() const;

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

struct VariableOptions {
  Shape shape = {};
  DType dtype = DType::kF32;         // f32, f64; i64 for counters
  InitializerSpec initializer = {};  // default: zeros
  OptimizerSpec optimizer = {};      // none: not trained by Minimize
  Partitioner partitioner = {};      // none: the strategy's
  // How its value and its gradients travel, as TableOptions::wire_dtype. bf16 for f32 only.
  DType wire_dtype = DType::kF32;
};

// How rows go to shards: all three balance rows exactly.
enum class Sharding : uint8_t {
  kMod,   // row r to shard r % n
  kDiv,   // contiguous ranges
  kHash,  // by a fixed hash of the row, so that neighbours part
};

// Of updated bf16 rows.
enum class Rounding : uint8_t {
  kStochastic,  // keeps the mean of what is lost
  kNearest,     // loses small steps
};

// A table with rows for any ids, made when they are first updated.
struct HashTableOptions {
  enum class Evict : uint8_t {
    kRecency,    // the least recently updated
    kFrequency,  // the least often updated
  };

  // An id gets its row with its min_count-th update (0 and 1: with the first); until then its
  // gradients are dropped, and counted.
  int64_t min_count = 0;
  // Or each update of an id without a row gives it one with this probability (0: always), the same
  // whatever the shards and the order.
  double admission_probability = 0;
  // Rows that no update has touched for this long go. 0: they stay.
  int64_t ttl_steps = 0;
  double ttl_seconds = 0;
  // No more rows than this in the whole table, split evenly among its shards; 0: no bound.
  int64_t max_rows = 0;
  std::optional<Evict> evict = {};  // which go first; not set: by recency
};

struct TableOptions {
  int64_t rows = 0;
  int64_t dim = 0;
  InitializerSpec initializer = {};
  OptimizerSpec optimizer = {};
  Partitioner partitioner = {};  // none: the strategy's; that too none: one shard per PS
  Sharding sharding = Sharding::kMod;
  // Or bf16: rows are stored in half of the memory; lookups give f32, slots and updates are f32.
  DType dtype = DType::kF32;
  std::optional<Rounding> rounding = {};  // bf16 only; not set: stochastic
  // How rows and their gradients travel. bf16, rounded to nearest, halves the bytes: for slow
  // networks. What is summed is summed in f32.
  DType wire_dtype = DType::kF32;
  // Set: a hash table; `rows` and `sharding` mean nothing then.
  std::optional<HashTableOptions> hash = {};
};

// A data set that every worker reads for itself, by tickets that the coordinator hands out.
class PerWorkerDataset {
 public:
  // The next batch of training examples; nothing after the last of the last epoch. Copies of this
  // handle share one position. After CheckpointManager::Restore it goes on with what no closure of
  // the checkpoint uses, so that a program that is killed and started again visits each example
  // once an epoch, whatever the batch size is now: the position is saved with the closures that
  // were scheduled. A ticket that was handed out and not scheduled then is handed out again.
  // With DatasetOptions::drop_remainder every batch is full: where another batch size, or a closure
  // that was cancelled halfway, leaves less than a batch, that is dropped too.
  std::optional<Ticket> NextTicket();
  // The next batches of one epoch, at most `count`; fewer where it ends, none where all do. For a
  // synchronous step (ClusterCoordinator::ScheduleStep).
  std::vector<Ticket> NextTickets(int64_t count);
  // All batches of a part, in order.
  std::vector<Ticket> Tickets(Part part, int64_t batch_size, int64_t max_examples = 0) const;
  int64_t steps_per_epoch() const;

  int64_t num_examples(Part part) const;
  // Number of ids of a categorical feature; 0 when there is none of that name.
  int64_t vocabulary_size(const std::string& feature) const;

  // Within Coxswain. Not of a PerWorkerDataset{}, which has none.
  const data::Dataset& data() const;
  uint32_t id() const;
  const data::DatasetOptions& options() const;

 private:
  friend class ParameterServerStrategy;
  struct State;
  std::shared_ptr<State> state_;
};

// A function that is registered on the cluster.
class RemoteFunction {
 public:
  RemoteFunction() = default;  // of no strategy: Schedule refuses it
  std::string name() const;
  // Of its results, in their order.
  std::vector<std::string> results() const;
  // What each Schedule must bring.
  // Errors: InvalidArgument when arguments or a ticket are missing, superfluous, of another type,
  // or of another data set.
  absl::Status CheckCall(const Ticket& ticket, absl::Span<const Tensor> arguments) const;

  // Within Coxswain. Where its parts run while every shard is where the strategy put it; not of a
  // RemoteFunction{}.
  const function::Partition& partition() const;
  uint32_t plan() const;
  uint32_t dataset() const;
  // Number of the strategy that defined it; 0: none.
  uint64_t strategy() const;

 private:
  friend class ParameterServerStrategy;
  friend class ClusterCoordinator;
  struct State;
  std::shared_ptr<const State> state_;
};

class ParameterServerStrategy {
 public:
  struct Options {
    Partitioner partitioner = {};               // for variables and tables that name none
    ComputeType compute = ComputeType::kF32;    // of the products in all functions
    DeviceChoice device = DeviceChoice::kAuto;  // of all functions
    // How closures with updates are applied. Steps (Consistency::in_steps) want
    // RecoveryOptions::on_ps_loss kRollback.
    Consistency consistency = {};
  };
  explicit ParameterServerStrategy(Cluster cluster) : ParameterServerStrategy(cluster, Options{}) {}
  ParameterServerStrategy(Cluster cluster, Options options);

  // From now on variables and tables that the checkpoint has are created with its shards: their
  // ids, number and strategy; only where they lie is chosen anew, so the number of PS may differ.
  // Others get ids of their own. Call it before anything is created.
  // Data sets go on where the checkpoint is: the first that is created is its first, and so on; one
  // that could not be created does not count.
  // Errors: FailedPrecondition when something was, by whatever strategy of the cluster, or when a
  // data set that is there has other data; DataLoss when a variable's shards are not whole.
  absl::Status UseLayout(const checkpoint::Manifest& manifest);
  // Names of the layout's variables that have not been created.
  std::vector<std::string> LayoutLeftOver() const;

  // Shards go to the PS with the fewest bytes so far; those of a layout where bytes and measured
  // access are even.
  // Errors: AlreadyExists for a name that is taken, by whatever strategy of the cluster;
  // InvalidArgument for shapes, optimizers and initializers that do not fit, also to the layout in
  // use: wanted (there), found (here). What fails leaves everything else as it was.
  absl::StatusOr<Variable> CreateVariable(const std::string& name, const VariableOptions& options);
  absl::StatusOr<EmbeddingTable> CreateTable(const std::string& name, const TableOptions& options);

  // TensorFlow's tf.keras.metrics.Mean, from zero. Its name is a variable's.
  absl::StatusOr<MeanMetric> CreateMean(const std::string& name);

  // Loads the data set here and on all workers.
  // Errors: what reading says, with file, line and column; DataLoss when a worker has other data;
  // FailedPrecondition when the checkpoint that the program goes on from has other data.
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const DatasetBuilder& builder) {
    return CreatePerWorkerDataset(builder.options());
  }
  // Within Coxswain.
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const data::DatasetOptions& options);

  // Nothing is scheduled on it any more: workers let go of it when no function that reads it is
  // left and nothing that was scheduled can run again. No checkpoint names it from then on.
  // Copies of the handle hand out no tickets.
  void Release(const PerWorkerDataset& dataset);
  // Within Coxswain. Of data sets of the checkpoint that is gone on from, those that were not
  // created again: no checkpoint names them any more.
  void ReleaseOthers();

  using Build = std::function<void(FunctionBuilder&)>;
  // Builds, places, partitions and registers a function. With a data set its columns can be inputs
  // (FunctionBuilder::Column), and Schedule wants a ticket of it.
  // Errors: InvalidArgument naming the node that is wrong; for a function that has neither a result
  // nor an update; for handles of another strategy.
  absl::StatusOr<RemoteFunction> Define(const std::string& name, const Build& build);
  absl::StatusOr<RemoteFunction> Define(const std::string& name, const PerWorkerDataset& dataset,
                                        const Build& build, Part part = Part::kTraining);

  // Functions that are defined from now on multiply the optimizers' learning rates by this, those
  // that were defined before keep theirs: so a program that finds, between two Joins, that the rate
  // is too high defines its step again. Above 0; 1 at first.
  void set_learning_rate_factor(double factor);

  // The variable's value: all shards as one tensor.
  // Errors: here and below InvalidArgument for a handle of another strategy.
  absl::StatusOr<Tensor> Read(const Variable& variable);
  absl::StatusOr<Tensor> Read(const EmbeddingTable& table);
  // 0 when nothing was brought since the metric was made or reset.
  absl::StatusOr<double> Read(const MeanMetric& metric);
  // From zero again. What closures bring that are not over now comes before it, or after.
  absl::Status Reset(const MeanMetric& metric);
  absl::Status Assign(const Variable& variable, const Tensor& value);
  absl::Status Assign(const EmbeddingTable& table, const Tensor& value);

  // Rows of one shard, by local number: for reading and writing what is larger than memory in
  // pieces.
  absl::StatusOr<Tensor> ReadShard(const VariableInfo& info, int shard, int64_t begin,
                                   int64_t count);
  absl::Status WriteShard(const VariableInfo& info, int shard, int64_t begin, const Tensor& rows);
  // Of a hash table: rows with their ids among `count` places of a shard from `begin` on.
  struct IdsAndRows {
    Tensor ids, rows;  // i64 [n], [n, dim]
    int64_t next = 0;  // the place to go on with; 0: that was all
  };
  absl::StatusOr<IdsAndRows> ReadIds(const VariableInfo& info, int shard, int64_t begin,
                                     int64_t count);
  // Gives these ids (i64 [n], whatever their shards) these rows [n, dim].
  absl::Status WriteIds(const VariableInfo& info, const Tensor& ids, const Tensor& rows);
  // Takes all rows of a hash table away.
  absl::Status RemoveIds(const VariableInfo& info);

  // In order of creation.
  const std::vector<std::shared_ptr<const VariableInfo>>& variables() const;
  const Cluster& cluster() const;
  const Consistency& consistency() const;
  // Unique in this process.
  uint64_t number() const;

 private:
  struct State;

  std::shared_ptr<State> state_;
};

}  // namespace coxswain
