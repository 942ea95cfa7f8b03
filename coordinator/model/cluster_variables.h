// The variables of a model that is trained: a strategy creates them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/model/variable_maker.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

class ClusterVariables : public VariableMaker {
 public:
  // `strategy` outlives it.
  explicit ClusterVariables(ParameterServerStrategy* strategy) : strategy_(strategy) {}

  absl::StatusOr<EmbeddingTable> MakeTable(const std::string& name,
                                           const TableOptions& options) override {
    return strategy_->CreateTable(name, options);
  }
  absl::StatusOr<Variable> MakeVariable(const std::string& name,
                                        const VariableOptions& options) override {
    return strategy_->CreateVariable(name, options);
  }
  int num_ps() const override { return strategy_->cluster().num_ps(); }

 private:
  ParameterServerStrategy* const strategy_;
};

}  // namespace coxswain::model
