// Kernels: an op's code for the CPU.
//
// One Kernel object serves all runs of one node, from several threads at once: Compute is const.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/session_id.h"
#include "runtime/env/compute_pool.h"
#include "runtime/graph/op.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::graph {

// Identifies a run. Random ops draw from `seed` and `step`, so that a retried closure draws the
// same numbers.
struct StepInfo {
  SessionId session = 0;
  ClosureId closure = 0;
  uint32_t step = 0;  // within a packed closure
  uint64_t seed = 0;  // of the closure
};

class KernelContext {
 public:
  // `inputs` belong to the context: a kernel may take an input and, if it is the only owner,
  // overwrite it.
  KernelContext(absl::Span<Tensor> inputs, absl::Span<Tensor> outputs, const StepInfo& step,
                env::ComputePool* pool, VariableAccess* variables)
      : inputs_(inputs), outputs_(outputs), step_(step), pool_(pool), variables_(variables) {}

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const Tensor& input(int i) const { return inputs_[i]; }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  void set_output(int i, Tensor tensor) { outputs_[i] = std::move(tensor); }

  // A tensor to write the result to: input i's own memory when this run owns it alone and size and
  // dtype fit (the kernel must then only read an element before it writes it), else a new one.
  Tensor ForwardOrAllocate(int i, DType dtype, const Shape& shape);
  // The same for the first of all inputs that fits.
  Tensor ForwardAnyOrAllocate(DType dtype, const Shape& shape);

  const StepInfo& step() const { return step_; }
  env::ComputePool* pool() const { return pool_; }
  // The shards of this task; null on a task that has none.
  VariableAccess* variables() const { return variables_; }

 private:
  absl::Span<Tensor> inputs_;
  absl::Span<Tensor> outputs_;
  const StepInfo& step_;
  env::ComputePool* pool_;
  VariableAccess* variables_;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Errors: InvalidArgument for values that only a run can check (an id out of range, shapes that
  // do not match). The executor adds the node's name.
  virtual absl::Status Compute(KernelContext* context) const = 0;
};

// A kernel without attributes or state, made from a function.
template <typename F>
KernelFactory StatelessKernel(F compute) {
  class FunctionKernel final : public Kernel {
   public:
    explicit FunctionKernel(F f) : f_(f) {}
    absl::Status Compute(KernelContext* context) const override { return f_(context); }

   private:
    F f_;
  };
  return [compute](const Node&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(new FunctionKernel(compute));
  };
}

}  // namespace coxswain::graph
