#include "kernels/cpu/finite.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/simd.h"

namespace coxswain::kernels {
namespace {

// Elements that are looked at together. They are still in the first-level cache when the one that
// is not finite must be found among them.
constexpr int64_t kBlock = 2048;

// An element is not finite when all bits of its exponent are set.
template <typename Bits, Bits kExponent>
COX_SIMD_INLINE bool AnyIn(const char* data, int64_t n) {
  Bits found = 0;
  COX_SIMD_LOOP
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    found |= (bits & kExponent) == kExponent ? Bits{1} : Bits{0};
  }
  return found != 0;
}

template <typename Bits, Bits kExponent>
int64_t Find(const char* data, int64_t n) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(Bits));
  int64_t block = -1;
  RunSimd([&]() COX_SIMD_BODY {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      if (!AnyIn<Bits, kExponent>(data + begin * kSize, std::min(kBlock, n - begin))) continue;
      block = begin;
      return;
    }
  });
  if (block < 0) return -1;
  while (!AnyIn<Bits, kExponent>(data + block * kSize, 1)) ++block;
  return block;
}

}  // namespace

int64_t FindNotFinite(DType dtype, const void* data, int64_t n) {
  const char* const bytes = static_cast<const char*>(data);
  switch (dtype) {
    case DType::kF32:
      return Find<uint32_t, 0x7f800000u>(bytes, n);
    case DType::kF64:
      return Find<uint64_t, 0x7ff0000000000000u>(bytes, n);
    case DType::kBF16:
      return Find<uint16_t, uint16_t{0x7f80}>(bytes, n);
    default:
      return -1;
  }
}

}  // namespace coxswain::kernels
