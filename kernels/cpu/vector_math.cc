#include "kernels/cpu/vector_math.h"

namespace coxswain::kernels {

void VectorExp(const float* in, float* out, int64_t n) {
  RunSimd([=]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = FastExp(in[i]);
  });
}

void VectorLog(const float* in, float* out, int64_t n) {
  RunSimd([=]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = FastLog(in[i]);
  });
}

void VectorTanh(const float* in, float* out, int64_t n) {
  RunSimd([=]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = FastTanh(in[i]);
  });
}

void VectorSigmoid(const float* in, float* out, int64_t n) {
  RunSimd([=]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = FastSigmoid(in[i]);
  });
}

void VectorSoftplus(const float* in, float* out, int64_t n) {
  RunSimd([=]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = FastSoftplus(in[i]);
  });
}

}  // namespace coxswain::kernels
