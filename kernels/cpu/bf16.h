// f32 rounded to bf16, to the nearest, ties to even, NaN stays NaN; and bf16 as f32, exactly.
#pragma once

#include <cstdint>

#include "runtime/tensor/dtype.h"

namespace coxswain {

// `out` must not overlap `in`. Thread-safe.
void ToBf16(const float* in, int64_t n, BFloat16* out);
void FromBf16(const BFloat16* in, int64_t n, float* out);

}  // namespace coxswain
