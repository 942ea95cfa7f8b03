// Element-wise loops over two inputs with NumPy's broadcasting.
//
// The output's dimensions are merged into as few as possible: equal shapes become one row, a bias
// [N] on [B,N] becomes B rows of N, a column [B,1] on [B,N] becomes B rows against one value each.
#pragma once

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "kernels/cpu/dispatch.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::kernels {

struct BroadcastPlan {
  Shape shape;  // of the output
  // Merged dimensions, outermost first, at least one. Strides in elements, 0 where the input
  // repeats; the innermost ones are 1 or 0.
  absl::InlinedVector<int64_t, 4> dims, a_strides, b_strides;

  int64_t rows() const;  // product of all but the innermost
  int64_t row() const { return dims.back(); }
};

// Errors: InvalidArgument when the shapes do not broadcast. Both fully known.
absl::StatusOr<BroadcastPlan> PlanBroadcast(const Shape& a, const Shape& b);

// Calls body(a offset, b offset, output offset, count) for pieces of rows that together cover the
// output, in parallel when it is large.
void ForEachRow(const BroadcastPlan& plan, env::ComputePool* pool,
                absl::FunctionRef<void(int64_t, int64_t, int64_t, int64_t)> body);

}  // namespace coxswain::kernels
