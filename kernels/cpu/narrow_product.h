// Products in which a matrix is one column or one row: of vectors' length they are bound by memory,
// and oneDNN's blocks are mostly padding then.
#pragma once

#include <cstdint>

#include "kernels/cpu/onednn_matmul.h"

namespace coxswain::kernels {

// Whether `NarrowProduct` takes the product: one of f32 whose result has one column, or whose
// inner dimension is 1.
bool IsNarrow(const MatMulProblem& problem);

// As MatMulF32, for rows [begin, end) of the result (which has all `problem.m` of them). The bits
// do not depend on how rows are cut. Thread-safe.
void NarrowProduct(const MatMulProblem& problem, const float* a, const float* b, const float* bias,
                   float* c, int64_t begin, int64_t end);

}  // namespace coxswain::kernels
