// Where the variables of a model come from: a cluster creates them, a saved model has them. By it
// the same code builds what is trained and what predicts.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

// Thread model: one thread.
class VariableMaker {
 public:
  virtual ~VariableMaker() = default;
  // Errors: those of the strategy, or of the saved model.
  virtual absl::StatusOr<EmbeddingTable> MakeTable(const std::string& name,
                                                   const TableOptions& options) = 0;
  virtual absl::StatusOr<Variable> MakeVariable(const std::string& name,
                                                const VariableOptions& options) = 0;
  // How many parameter servers shards are spread over.
  virtual int num_ps() const = 0;
  // How many threads each of them has at least: a shard is changed by one of them.
  virtual int ps_threads() const = 0;
};

}  // namespace coxswain::model
