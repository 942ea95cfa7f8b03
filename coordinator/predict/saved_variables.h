// The variables of a saved model, or of a checkpoint, in this process: the model's graph is built
// on them, and its ops read them. A model's tables are mapped from their files; a checkpoint's are
// in memory, shared with other checkpoints of the same job. A hash table's ids are indexed.
//
// Thread model: built by one thread; then immutable, and Read and Gather are thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/checkpoint_tables.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/model/variable_maker.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::predict {

class SavedVariables : public model::VariableMaker, public graph::VariableAccess {
 public:
  // `tables`: for a checkpoint, those of other checkpoints of the same job; may be null.
  explicit SavedVariables(model::SavedSource source,
                          std::shared_ptr<model::CheckpointTables> tables = nullptr);
  ~SavedVariables() override;

  // Return the table or variable that is saved under the name. Errors: NotFound; InvalidArgument
  // for a width or shape that differs from the job's; DataLoss.
  absl::StatusOr<EmbeddingTable> MakeTable(const std::string& name,
                                           const TableOptions& options) override;
  absl::StatusOr<Variable> MakeVariable(const std::string& name,
                                        const VariableOptions& options) override;
  int num_ps() const override { return 1; }
  int ps_threads() const override { return 1; }

  // An id without a row reads its initial values, as on a parameter server.
  absl::StatusOr<Tensor> Read(ShardId shard) override;
  absl::StatusOr<Tensor> Gather(ShardId shard, const Tensor& ids) override;
  // Errors: FailedPrecondition always: a saved model does not learn.
  absl::Status Stage(graph::Update update) override;

 private:
  class Stored;

  const model::SavedSource source_;
  const std::shared_ptr<model::CheckpointTables> tables_;
  std::vector<std::unique_ptr<Stored>> stored_;  // by shard
};

}  // namespace coxswain::predict
