// The variables of a model that is trained: a strategy creates them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/variable_maker.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

class ClusterVariables : public VariableMaker {
 public:
  // Of a variable that is about to be created: see kernels::kEarlierSteps.
  using EarlierSteps = std::function<absl::StatusOr<int64_t>(const VariableInfo&)>;

  // `strategy` outlives it. `earlier_steps`: of slots that variables will begin with; null: none.
  explicit ClusterVariables(ParameterServerStrategy* strategy, EarlierSteps earlier_steps = nullptr)
      : strategy_(strategy), earlier_steps_(std::move(earlier_steps)) {}

  absl::StatusOr<EmbeddingTable> MakeTable(const std::string& name,
                                           const TableOptions& options) override;
  absl::StatusOr<Variable> MakeVariable(const std::string& name,
                                        const VariableOptions& options) override;
  int num_ps() const override { return strategy_->cluster().num_ps(); }
  int ps_threads() const override;

 private:
  ParameterServerStrategy* const strategy_;
  const EarlierSteps earlier_steps_;
};

}  // namespace coxswain::model
