// A search for numbers that are NaN or infinite.
#pragma once

#include <cstdint>

#include "coxswain/tensor.h"

namespace coxswain::kernels {

// Of `n` elements of f32, f64 or bf16: the place of the first one that is NaN or infinite; -1 when
// there is none, and for other dtypes. `data` need not be aligned. About as fast as memory is read.
int64_t FindNotFinite(DType dtype, const void* data, int64_t n);

}  // namespace coxswain::kernels
