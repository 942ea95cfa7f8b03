// Sums, maxima and scaled copies of one row, for the body of a RunSimd loop (see simd.h).
//
// A sum is taken in several lanes at once, so its last bits depend on the machine's vector width.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/vector_math.h"

namespace coxswain::kernels {

// How many rows of `width` elements are worth another thread: a grain for ParallelFor.
inline int64_t RowGrain(int64_t width) {
  constexpr int64_t kElements = 32768;
  return width >= kElements ? 1 : kElements / (width < 1 ? 1 : width);
}

// -infinity for an empty row; NaN is skipped.
template <typename T>
COX_SIMD_INLINE T RowMax(const T* x, int64_t n) {
  T best = -std::numeric_limits<T>::infinity();
#if defined(__clang__)
  // Lanes by hand: clang does not vectorise a maximum that skips NaN.
  constexpr int kLanes = 16;
  T lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = best;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
    }
  }
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  for (int lane = 0; lane < kLanes; ++lane) best = lanes[lane] > best ? lanes[lane] : best;
#else
#pragma omp simd reduction(max : best)
  for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
#endif
  return best;
}

template <typename T>
COX_SIMD_INLINE T RowSum(const T* x, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

template <typename T>
COX_SIMD_INLINE T RowProduct(const T* a, const T* b, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

COX_SIMD_INLINE float Exp(float x) { return FastExp(x); }
COX_SIMD_INLINE double Exp(double x) { return std::exp(x); }

// out = e^(x - shift); returns the sum of out. `out` may be `x`.
template <typename T>
COX_SIMD_INLINE T RowExp(const T* x, T shift, T* out, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const T e = Exp(x[i] - shift);
    out[i] = e;
    sum += e;
  }
  return sum;
}

// out = s * x. `out` may be `x`.
template <typename T>
COX_SIMD_INLINE void RowScale(const T* x, T s, T* out, int64_t n) {
  COX_SIMD_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = s * x[i];
}

// out += s * x.
template <typename T>
COX_SIMD_INLINE void RowAddScaled(const T* x, T s, T* out, int64_t n) {
  COX_SIMD_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] += s * x[i];
}

// How many elements are not < threshold: NaN counts, and everything does for a NaN threshold.
COX_SIMD_INLINE int64_t RowCountNotBelow(const float* x, float threshold, int64_t n) {
  int64_t total = 0;
  for (int64_t begin = 0; begin < n;
       begin += int64_t{1} << 24) {  // 32-bit counts are twice as fast
    const int64_t end = n < begin + (int64_t{1} << 24) ? n : begin + (int64_t{1} << 24);
    int32_t count = 0;
#pragma omp simd reduction(+ : count)
    for (int64_t i = begin; i < end; ++i) count += x[i] < threshold ? 0 : 1;
    total += count;
  }
  return total;
}

}  // namespace coxswain::kernels
