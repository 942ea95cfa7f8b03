#include "kernels/cpu/bf16.h"

#include <cstring>

#include "kernels/cpu/simd.h"

namespace coxswain::kernels {

// BFloat16::FromFloat without a branch, for the vectoriser.
void ToBf16(const float* in, int64_t n, BFloat16* out) {
  RunSimd([=]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) {
      uint32_t raw;
      std::memcpy(&raw, in + i, sizeof(raw));
      const uint32_t rounded = (raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16;
      const uint32_t nan = (raw >> 16) | 0x40u;
      out[i].bits = static_cast<uint16_t>((raw & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
    }
  });
}

void FromBf16(const BFloat16* in, int64_t n, float* out) {
  RunSimd([=]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t raw = static_cast<uint32_t>(in[i].bits) << 16;
      std::memcpy(out + i, &raw, sizeof(raw));
    }
  });
}

}  // namespace coxswain::kernels
