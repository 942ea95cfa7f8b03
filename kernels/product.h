// What the ops that multiply matrices share: the product of two tensors, and how it is computed.
#pragma once

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "kernels/cpu/onednn_matmul.h"
#include "runtime/graph/attr.h"

namespace coxswain::kernels {

// What the attributes of compute.h ask for.
struct Computing {
  bool bf16 = false, same_on_any_threads = false;

  void SetIn(MatMulProblem* problem) const {
    problem->bf16 = bf16;
    problem->same_on_any_threads = same_on_any_threads;
  }
};
// Errors: InvalidArgument for a value that is not known.
absl::StatusOr<Computing> ReadComputing(const Attrs& attrs);

// `attrs` with the attributes of compute.h that `from` has: a product's gradients are computed as
// the product is.
Attrs WithCompute(Attrs attrs, const Attrs& from);

// Writes the product of `problem` of `a` and `b`, and of `bias` if it is not null, to `out`. All
// are f32, or all f64, and have as many elements as the problem says. f32 goes through oneDNN; f64
// (for checking gradients) through a plain blocked loop. Errors: as MatMulF32.
absl::Status ComputeProduct(const MatMulProblem& problem, const Tensor& a, const Tensor& b,
                            const Tensor* bias, Tensor* out, env::ComputePool* pool);

}  // namespace coxswain::kernels
