// The variables of a saved model in this process: what the model's graph is built on, and what its
// ops read. Tables are mapped from their files; a hash table's ids are indexed in memory.
//
// Thread model: made by one thread; then immutable, and Read and Gather may be called from any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/model/variable_maker.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::predict {

class SavedVariables : public model::VariableMaker, public graph::VariableAccess {
 public:
  explicit SavedVariables(model::SavedSource source);
  ~SavedVariables() override;

  // Those that are saved under the name. Errors: NotFound; InvalidArgument for another width or
  // shape than the job's; DataLoss.
  absl::StatusOr<EmbeddingTable> MakeTable(const std::string& name,
                                           const TableOptions& options) override;
  absl::StatusOr<Variable> MakeVariable(const std::string& name,
                                        const VariableOptions& options) override;
  int num_ps() const override { return 1; }

  // An id without a row reads as on a parameter server: what the initializer says of it.
  absl::StatusOr<Tensor> Read(ShardId shard) override;
  absl::StatusOr<Tensor> Gather(ShardId shard, const Tensor& ids) override;
  // Errors: FailedPrecondition always: a saved model does not learn.
  absl::Status Stage(graph::Update update) override;

 private:
  class Stored;

  const model::SavedSource source_;
  std::vector<std::unique_ptr<Stored>> stored_;  // by shard
};

}  // namespace coxswain::predict
