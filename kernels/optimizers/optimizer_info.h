// What the list of optimizers tells those that do not run them: the schema of JOB.yaml.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/optimizers/optimizer_key.h"

namespace coxswain::kernels {

struct OptimizerInfo {
  struct Parameter {
    const char* name;
    const char* help;
    bool is_switch;  // true or false, 1 or 0
    ParameterRange range;
    double fallback;
  };

  const char* kind;
  const char* help;
  std::vector<Parameter> parameters;
};

// All of them, in the order of the list.
const std::vector<OptimizerInfo>& AllOptimizers();

// What an optimizer keeps beside the weights, in the order of its slots.
struct SlotInfo {
  std::string name;      // of the tensor in checkpoints
  bool per_row = false;  // one value a row; else one for each weight
};
// None for an optimizer without slots, and for none of this kind.
std::vector<SlotInfo> SlotsOfKind(absl::string_view kind);

// Null when there is none of this kind.
const OptimizerInfo* FindOptimizer(absl::string_view kind);

// "sgd, momentum, ..." with `separator` between two.
std::string OptimizerKinds(absl::string_view separator);

}  // namespace coxswain::kernels
