// exp, log, tanh and related functions of floats, written so that compilers vectorise loops over
// them.
//
// The Fast* functions are for the body of a RunSimd loop; the Vector* functions are such loops.
// Errors against the exact value, over the whole range: FastExp, FastLog, FastTanh, FastSigmoid and
// FastSoftplus at most 3 ulp (4e-7 relative). Infinities and NaN come out as from the C library;
// results below the smallest normal number lose precision gradually, as they do there.
//
// In-place use (out == in) is fine. The Vector* functions are single-threaded; callers
// split the work.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace coxswain::kernels {

COX_SIMD_INLINE float BitsToFloat(uint32_t bits) { return __builtin_bit_cast(float, bits); }
COX_SIMD_INLINE uint32_t FloatToBits(float value) { return __builtin_bit_cast(uint32_t, value); }

// x = n ln2 + r with |r| <= ln2/2; e^x = 2^n e^r, e^r by a polynomial. 2^n is applied in two
// halves, so that results near the largest float and below the smallest normal one come out right.
COX_SIMD_INLINE float FastExp(float x) {
  // Outside, the result is infinity or zero anyway. NaN passes through both comparisons.
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  float r = x - n * 0.693359375f;
  r = r + n * 2.12194440054690583e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r;
  p = p + 1.0f;
  // n >> 1 of a negative number is an arithmetic shift in C++20.
  const int32_t whole = static_cast<int32_t>(FloatToBits(shifted) - 0x4b400000u);
  const int32_t half = whole >> 1;
  const float scale1 = BitsToFloat(static_cast<uint32_t>(half + 127) << 23);
  const float scale2 = BitsToFloat(static_cast<uint32_t>(whole - half + 127) << 23);
  return p * scale1 * scale2;
}

// x = m 2^e with m in [sqrt(1/2), sqrt(2)); log x = e ln2 + log m, log m by a polynomial.
COX_SIMD_INLINE float FastLog(float x) {
  const bool tiny = x < 1.17549435e-38f;  // a denormal is scaled up first
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t bits = FloatToBits(scaled);
  // Subtracting sqrt(1/2)'s bits makes the exponent field count from m = sqrt(1/2).
  const uint32_t offset = bits - 0x3f3504f3u;
  const int32_t exponent = static_cast<int32_t>(offset) >> 23;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  const float m = BitsToFloat((offset & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * z;
  p = p + e * -2.12194440054690583e-4f;
  p = p - 0.5f * z;
  float result = m + p;
  result = result + e * 0.693359375f;
  result = x == __builtin_inff() ? x : result;
  result = x == 0.0f ? -__builtin_inff() : result;
  // True for negative numbers and for NaN.
  return x >= 0.0f ? result : __builtin_nanf("");
}

// log(1 + u) for u in [0, 1]: the part of u that 1 + u rounds away is put back.
COX_SIMD_INLINE float FastLog1pUnit(float u) {
  const float w = 1.0f + u;
  const float d = w - 1.0f;
  return d == 0.0f ? u : FastLog(w) * (u / d);
}

// Small |x|: an odd polynomial. Else 1 - 2 / (e^2|x| + 1), with the sign of x.
COX_SIMD_INLINE float FastTanh(float x) {
  const float a = __builtin_fabsf(x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * x + x;
  const float large = 1.0f - 2.0f / (FastExp(2.0f * a) + 1.0f);
  const float sign = BitsToFloat((FloatToBits(x) & 0x80000000u) | FloatToBits(large));
  return a < 0.625f ? small : sign;
}

// 1 / (1 + e^-x).
COX_SIMD_INLINE float FastSigmoid(float x) { return 1.0f / (1.0f + FastExp(-x)); }

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
COX_SIMD_INLINE float FastSoftplus(float x) {
  const float positive = x < 0.0f ? 0.0f : x;  // NaN stays
  return positive + FastLog1pUnit(FastExp(-__builtin_fabsf(x)));
}

void VectorExp(const float* in, float* out, int64_t n);
void VectorLog(const float* in, float* out, int64_t n);
void VectorTanh(const float* in, float* out, int64_t n);
void VectorSigmoid(const float* in, float* out, int64_t n);
void VectorSoftplus(const float* in, float* out, int64_t n);

}  // namespace coxswain::kernels
