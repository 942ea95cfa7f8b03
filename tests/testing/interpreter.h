// Runs a function node by node in the calling thread: the plainest executor there can be, for tests
// of ops and gradients. A tensor is dropped after its last use, so kernels write in place as they
// do in the real executor; every output is checked against the type that inference promised.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/env/compute_pool.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/kernel.h"

namespace coxswain::testing {

class Gpu;

struct InterpretOptions {
  graph::StepInfo step;
  env::ComputePool* pool = nullptr;  // null: an inline pool of its own
  graph::VariableAccess* variables = nullptr;
  // Runs functions without shards there instead, by the real executor.
  const Gpu* gpu = nullptr;
};

// The results of `function`, in their order. `arguments` in the order of function.arguments.
// Errors: InvalidArgument for arguments that do not fit; what kernels say, with the node's name;
// Internal when a kernel's output is not what inference promised.
absl::StatusOr<std::vector<Tensor>> Interpret(const graph::Function& function,
                                              std::vector<Tensor> arguments,
                                              const InterpretOptions& options = {});

// A tensor with the same values in memory of its own.
Tensor DeepCopy(const Tensor& tensor);

}  // namespace coxswain::testing
