#include "coordinator/model/cluster_variables.h"

#include <algorithm>

#include "coordinator/api/task_statuses.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

// Sets how many updates are behind the slots of the variable that `info` describes.
absl::Status SetEarlierSteps(const ClusterVariables::EarlierSteps& earlier_steps, VariableInfo info,
                             OptimizerSpec* optimizer) {
  proto::OptimizerSpec spec = *optimizer;
  if (!earlier_steps || spec.kind().empty()) return absl::OkStatus();
  info.optimizer = spec;
  ASSIGN_OR_RETURN(const int64_t steps, earlier_steps(info));
  if (steps == 0) return absl::OkStatus();
  kernels::SetParameter(kernels::kEarlierSteps, static_cast<double>(steps), &spec);
  *optimizer = OptimizerSpec(spec);
  return absl::OkStatus();
}

}  // namespace

int ClusterVariables::ps_threads() const {
  int least = 0;  // none has answered
  for (const proto::TaskStatus& task : TaskStatuses(strategy_->cluster())) {
    if (task.job() != "ps" || task.threads() <= 0) continue;
    least = least == 0 ? task.threads() : std::min(least, task.threads());
  }
  return std::max(1, least);
}

absl::StatusOr<EmbeddingTable> ClusterVariables::MakeTable(const std::string& name,
                                                           const TableOptions& options) {
  VariableInfo info;
  info.name = name;
  info.dtype = options.dtype;
  info.shape = Shape{options.hash ? kUnknownDim : options.rows, options.dim};
  info.table = true;
  if (options.hash) info.hash_table.emplace();
  TableOptions made = options;
  RETURN_IF_ERROR(SetEarlierSteps(earlier_steps_, std::move(info), &made.optimizer));
  return strategy_->CreateTable(name, made);
}

absl::StatusOr<Variable> ClusterVariables::MakeVariable(const std::string& name,
                                                        const VariableOptions& options) {
  VariableInfo info;
  info.name = name;
  info.dtype = options.dtype;
  info.shape = options.shape;
  VariableOptions made = options;
  RETURN_IF_ERROR(SetEarlierSteps(earlier_steps_, std::move(info), &made.optimizer));
  return strategy_->CreateVariable(name, made);
}

}  // namespace coxswain::model
