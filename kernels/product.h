// What the ops that multiply matrices share: the product of two tensors, and how it is computed.
#pragma once

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "kernels/cpu/onednn_matmul.h"
#include "runtime/graph/attr.h"

namespace coxswain::kernels {

// Whether the attribute compute (see compute.h) asks for bf16.
// Errors: InvalidArgument for a value that is not known.
absl::StatusOr<bool> ComputesInBf16(const Attrs& attrs);

// `attrs` with the attribute compute of `from`, if there is one: a product's gradients are computed
// as the product is.
Attrs WithCompute(Attrs attrs, const Attrs& from);

// Writes the product of `problem` of `a` and `b`, and of `bias` if it is not null, to `out`. All
// are f32, or all f64, and have as many elements as the problem says. f32 goes through oneDNN; f64
// (for checking gradients) through a plain blocked loop. Errors: as MatMulF32.
absl::Status ComputeProduct(const MatMulProblem& problem, const Tensor& a, const Tensor& b,
                            const Tensor* bias, Tensor* out, env::ComputePool* pool);

}  // namespace coxswain::kernels
