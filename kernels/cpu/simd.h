// Runs a loop with the widest vectors the machine has, chosen at run time: what is shipped is built
// for plain x86-64, and still uses AVX2 or AVX-512 where there is one.
//
//   RunSimd([&]() COX_SIMD_BODY {
//     COX_SIMD_LOOP
//     for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
//   });
//
// The body is compiled once per level. All that it calls must be COX_SIMD_INLINE (or a builtin),
// else that call runs at the baseline. Thread-safe.
#pragma once

#include <cstdint>

#define COX_SIMD_BODY __attribute__((always_inline))
#define COX_SIMD_INLINE inline __attribute__((always_inline))

// Iterations of the loop that follows do not depend on each other; an output may be the very same
// array as an input (in place), but must not overlap it in another way.
#if defined(__clang__)
#define COX_SIMD_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define COX_SIMD_LOOP _Pragma("GCC ivdep")
#endif

namespace coxswain::kernels {

enum class SimdLevel : uint8_t { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };

inline SimdLevel DetectSimd() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma")) {
    return SimdLevel::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return SimdLevel::kAvx2;
#endif
  return SimdLevel::kBaseline;
}

inline SimdLevel CurrentSimd() {
  static const SimdLevel level = DetectSimd();
  return level;
}

#if defined(__x86_64__)
template <typename Body>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"), noinline)) void RunAvx512(
    const Body& body) {
  body();
}
template <typename Body>
__attribute__((target("avx2,fma"), noinline)) void RunAvx2(const Body& body) {
  body();
}
#endif

// `body` at the given level; the machine must have it (tests compare levels).
template <typename Body>
void RunSimdAt(SimdLevel level, const Body& body) {
#if defined(__x86_64__)
  if (level == SimdLevel::kAvx512) return RunAvx512(body);
  if (level == SimdLevel::kAvx2) return RunAvx2(body);
#endif
  body();
}

template <typename Body>
void RunSimd(const Body& body) {
  RunSimdAt(CurrentSimd(), body);
}

}  // namespace coxswain::kernels
