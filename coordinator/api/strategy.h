// ParameterServerStrategy: creates variables, tables, data sets and functions on a cluster.
//
// Thread model: one thread at a time. Handles that it returns are values and stay good as long as
// the cluster. They belong to this strategy: another one, also on the same cluster, refuses them by
// an error that names both. Several strategies may share a cluster; names of variables are the
// cluster's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/catalog.h"
#include "coordinator/api/cluster.h"
#include "coordinator/api/data_cursor.h"
#include "coordinator/api/dataset_builder.h"
#include "coordinator/api/function_builder.h"
#include "coordinator/api/partitioner.h"
#include "coordinator/api/variable.h"
#include "kernels/compute.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/dataset.h"
#include "runtime/function/partition.h"

namespace coxswain {

struct VariableOptions {
  Shape shape;
  DType dtype = DType::kF32;                // f32, f64; i64 for counters
  proto::InitializerSpec initializer = {};  // default: zeros
  proto::OptimizerSpec optimizer = {};      // none: not trained by Minimize
  Partitioner partitioner = {};             // none: the strategy's
};

struct TableOptions {
  int64_t rows = 0;
  int64_t dim = 0;
  proto::InitializerSpec initializer = {};
  proto::OptimizerSpec optimizer = {};
  Partitioner partitioner = {};  // none: the strategy's; that too none: one shard per PS
  // How rows go to shards: "mod": row r to shard r % n; "div": contiguous ranges; "hash": by a
  // fixed hash of the row, so that neighbours part; all three balance rows exactly.
  std::string strategy = "mod";
  // Or bf16: rows are stored in half of the memory; lookups give f32, slots and updates are f32.
  DType dtype = DType::kF32;
  // Of updated bf16 rows: "stochastic" keeps the mean of what is lost, "nearest" loses small steps.
  std::string rounding = {};  // empty: "stochastic" for bf16
  // How rows and their gradients travel. bf16, rounded to nearest, halves the bytes: for slow
  // networks. What is summed is summed in f32.
  DType wire_dtype = DType::kF32;
  // A table with rows for any ids, made when they are first updated; `rows` and `strategy` mean
  // nothing then.
  std::optional<proto::HashTableSpec> hash = {};
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
  // All batches of a part, in order.
  std::vector<Ticket> Tickets(Part part, int64_t batch_size, int64_t max_examples = 0) const;
  int64_t steps_per_epoch() const;

  // Not of a PerWorkerDataset{}, which has none.
  const Dataset& data() const { return *data_; }
  DatasetId id() const { return id_; }
  const DatasetOptions& options() const { return options_; }

 private:
  friend class ParameterServerStrategy;
  DatasetId id_ = 0;
  uint64_t strategy_ = 0;
  DatasetOptions options_;
  std::shared_ptr<const Dataset> data_;  // the coordinator's own copy: sizes, vocabularies
  std::shared_ptr<DataCursor> cursor_;
};

// A function that is registered on the cluster.
class RemoteFunction {
 public:
  RemoteFunction() = default;  // of no strategy: Schedule refuses it
  std::string name() const { return partition_ == nullptr ? "" : partition_->worker.name; }
  // Where its parts run while every shard is where the strategy put it. Not of a RemoteFunction{}.
  const Partition& partition() const { return *partition_; }
  PlanId plan() const { return plan_; }
  DatasetId dataset() const { return dataset_; }
  // Number of the strategy that defined it; 0: none.
  uint64_t strategy() const { return strategy_; }
  // What each Schedule must bring.
  // Errors: InvalidArgument when arguments or a ticket are missing, superfluous, of another type,
  // or of another data set.
  absl::Status CheckCall(const Ticket& ticket, absl::Span<const Tensor> arguments) const;

 private:
  friend class ParameterServerStrategy;
  struct Input {
    std::string name;
    TensorType type;
  };
  PlanId plan_ = 0;
  DatasetId dataset_ = 0;
  uint64_t strategy_ = 0;
  std::vector<Input> arguments_;  // in Schedule's order
  std::string column_;            // one that it reads; empty: none
  std::shared_ptr<const Partition> partition_;
};

class ParameterServerStrategy {
 public:
  struct Options {
    Partitioner partitioner = {};             // for variables and tables that name none
    ComputeType compute = ComputeType::kF32;  // of the products in all functions
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
  absl::Status UseLayout(const Manifest& manifest);
  // Names of the layout's variables that have not been created.
  std::vector<std::string> LayoutLeftOver() const;

  // Shards go to the PS with the fewest bytes so far; those of a layout where bytes and measured
  // access are even.
  // Errors: AlreadyExists for a name that is taken, by whatever strategy of the cluster;
  // InvalidArgument for shapes, optimizers and initializers that do not fit, also to the layout in
  // use: wanted (there), found (here). What fails leaves everything else as it was.
  absl::StatusOr<Variable> CreateVariable(const std::string& name, const VariableOptions& options);
  absl::StatusOr<EmbeddingTable> CreateTable(const std::string& name, const TableOptions& options);

  // Loads the data set here and on all workers.
  // Errors: what reading says, with file, line and column; DataLoss when a worker has other data;
  // FailedPrecondition when the checkpoint that the program goes on from has other data.
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const DatasetBuilder& builder) {
    return CreatePerWorkerDataset(builder.options());
  }
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const DatasetOptions& options);

  using Build = std::function<void(FunctionBuilder&)>;
  // Builds, places, partitions and registers a function. With a data set its columns can be inputs
  // (FunctionBuilder::Column), and Schedule wants a ticket of it.
  // Errors: InvalidArgument naming the node that is wrong; for a function that has neither a result
  // nor an update; for handles of another strategy.
  absl::StatusOr<RemoteFunction> Define(const std::string& name, const Build& build);
  absl::StatusOr<RemoteFunction> Define(const std::string& name, const PerWorkerDataset& dataset,
                                        const Build& build, Part part = Part::kTraining);

  // The variable's value: all shards as one tensor.
  // Errors: here and below InvalidArgument for a handle of another strategy.
  absl::StatusOr<Tensor> Read(const Variable& variable);
  absl::StatusOr<Tensor> Read(const EmbeddingTable& table);
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
  const std::vector<std::shared_ptr<const VariableInfo>>& variables() const { return variables_; }
  const Cluster& cluster() const { return cluster_; }
  // Unique in this process.
  uint64_t number() const { return number_; }

 private:
  absl::Status CheckOwner(const VariableInfo& info) const;
  // Also that there is such a shard.
  absl::Status CheckShard(const VariableInfo& info, int shard) const;
  absl::StatusOr<std::shared_ptr<const VariableInfo>> Create(std::shared_ptr<VariableInfo> info,
                                                             const proto::InitializerSpec& init,
                                                             int64_t shards);
  absl::Status CreateShards(VariableInfo* info, const proto::InitializerSpec& init, int64_t shards);
  // Cuts the variable into new shards, or takes those of the layout.
  absl::Status MakeShards(VariableInfo* info, const proto::VariableSpec& spec, int64_t shards);
  absl::Status TakeShards(VariableInfo* info, const proto::VariableSpec& spec,
                          const std::vector<proto::ShardSpec>& saved);
  // On the workers.
  absl::Status RegisterDataset(const PerWorkerDataset& dataset);
  FunctionBuilder NewBuilder(const std::string& name) const;
  absl::StatusOr<RemoteFunction> Finish(FunctionBuilder builder, DatasetId dataset);
  absl::StatusOr<Tensor> ReadAll(const VariableInfo& info);
  absl::Status WriteAll(const VariableInfo& info, const Tensor& value);

  Cluster cluster_;
  Options options_;
  uint64_t number_ = 0;
  std::vector<std::shared_ptr<const VariableInfo>> variables_;
  std::map<std::string, std::vector<proto::ShardSpec>> layout_;  // by variable, by index
};

}  // namespace coxswain
