// Conversion of f32 to bf16, rounded to nearest, ties to even (NaN stays NaN); and back, which is
// exact.
#pragma once

#include <cstdint>

#include "coxswain/tensor.h"

namespace coxswain::kernels {

// `out` must not overlap `in`. Thread-safe.
void ToBf16(const float* in, int64_t n, BFloat16* out);
void FromBf16(const BFloat16* in, int64_t n, float* out);

}  // namespace coxswain::kernels
