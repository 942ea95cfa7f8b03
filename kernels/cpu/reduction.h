// Sums and maxima over some of a tensor's dimensions.
#pragma once

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::kernels {

enum class ReduceKind { kSum, kMax };

using AxisMask = absl::InlinedVector<bool, 4>;

// `x` reduced over the dimensions whose flag is set; they stay, with size 1. `flags` has one per
// dimension. f32 (summed in double), f64, and i64 for sums (wrapping around). Over nothing a sum is
// 0, a maximum -infinity; a NaN makes the result NaN. The result does not depend on the number of
// threads. Errors: InvalidArgument for another dtype.
absl::StatusOr<Tensor> Reduce(ReduceKind kind, const Tensor& x, const AxisMask& flags,
                              env::ComputePool* pool);

// The dimensions over which `from` must be summed to take the shape `to`, as broadcasting repeated
// it. Errors: InvalidArgument when `to` does not broadcast to `from`.
absl::StatusOr<AxisMask> BroadcastAxes(const Shape& from, const Shape& to);

}  // namespace coxswain::kernels
