// Arithmetic of single values on the device, and the types that C++ lacks there.
//
// Functions of floats come from the C library or CUDA's, which are within 2 ulp of the exact value;
// the CPU's own (kernels/cpu/vector_math.h) are within 3.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cuda/launch.h"

namespace coxswain::cuda {

COX_DEVICE float Exp(float x) { return expf(x); }
COX_DEVICE double Exp(double x) { return exp(x); }
COX_DEVICE float Log(float x) { return logf(x); }
COX_DEVICE double Log(double x) { return log(x); }
COX_DEVICE float Log1p(float x) { return log1pf(x); }
COX_DEVICE double Log1p(double x) { return log1p(x); }
COX_DEVICE float Tanh(float x) { return tanhf(x); }
COX_DEVICE double Tanh(double x) { return tanh(x); }
COX_DEVICE float Sqrt(float x) { return sqrtf(x); }
COX_DEVICE double Sqrt(double x) { return sqrt(x); }

// Rounded each on its own, where a compiler would make one multiply-add of the two.
#if defined(__CUDACC__)
COX_DEVICE float Times(float a, float b) { return __fmul_rn(a, b); }
COX_DEVICE float Sum(float a, float b) { return __fadd_rn(a, b); }
#else
inline float Times(float a, float b) { return a * b; }
inline float Sum(float a, float b) { return a + b; }
#endif

// The upper 64 bits of the product.
#if defined(__CUDACC__)
COX_DEVICE uint64_t UpperHalf(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
#else
inline uint64_t UpperHalf(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
}
#endif

template <typename T>
COX_DEVICE T Infinity() {
  return static_cast<T>(HUGE_VALF);
}
// Neither NaN nor infinite: x - x is 0 for all others.
template <typename T>
COX_DEVICE bool IsFinite(T x) {
  return x - x == T{0};
}

// The upper half of a float.
struct Bf16 {
  uint16_t bits;

  COX_DEVICE float ToFloat() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
  }
  // To nearest, ties to even. NaN stays NaN.
  COX_DEVICE static Bf16 FromFloat(float value) {
    uint32_t wide;
    memcpy(&wide, &value, sizeof(wide));
    if ((wide & 0x7fffffffu) > 0x7f800000u) {
      return Bf16{static_cast<uint16_t>((wide >> 16) | 0x40u)};
    }
    wide += 0x7fffu + ((wide >> 16) & 1u);
    return Bf16{static_cast<uint16_t>(wide >> 16)};
  }
};

// For Block::Combine.
struct Plus {
  template <typename T>
  COX_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
// A NaN is skipped.
struct Larger {
  template <typename T>
  COX_DEVICE T operator()(T a, T b) const {
    return a > b ? a : b != b ? a : b;
  }
};
// A NaN is the result.
struct LargerOrNan {
  template <typename T>
  COX_DEVICE T operator()(T a, T b) const {
    return ((b > a) | (b != b)) ? b : a;
  }
};

}  // namespace coxswain::cuda
