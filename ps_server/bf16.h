// Conversions between f32 and bf16: of single numbers, and of blocks of kBf16Block. Blocks are
// vectors of GCC and Clang: loops over elements of two sizes become vectors of half the width, at a
// third of the speed.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "coxswain/tensor.h"
#include "ps_server/row_block.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/multiversion.h"

namespace coxswain::ps {

COX_ALWAYS_INLINE float WidenBf16(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Adds `up`, at most 0xffff, below the last bit that is kept, and truncates. NaN stays NaN.
COX_ALWAYS_INLINE BFloat16 CutToBf16(float value, uint32_t up) {
  const uint32_t raw = std::bit_cast<uint32_t>(value);
  const bool nan = (raw & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<uint16_t>((nan ? raw | 0x400000u : raw + up) >> 16)};
}

// To nearest, ties to even, as BFloat16::FromFloat.
COX_ALWAYS_INLINE BFloat16 NearestBf16(float value) {
  return CutToBf16(value, 0x7fffu + ((std::bit_cast<uint32_t>(value) >> 16) & 1u));
}

// The part of the random key that all elements of a row share.
inline uint32_t RoundingKey(const Bf16Rounding& rounding, int64_t number, int64_t key) {
  const uint64_t row = HashId(key) ^ rounding.seed;
  const uint64_t hash = HashId(static_cast<int64_t>(row + HashId(number)));
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

// 16 random bits for an element: the upper ones of C. Wellons' lowbias32.
COX_ALWAYS_INLINE uint32_t RoundingBits(uint32_t row_key, uint32_t element) {
  uint32_t x = row_key + element * 0x9e3779b9u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x >> 16;
}

COX_ALWAYS_INLINE BFloat16 StochasticBf16(float value, uint32_t row_key, uint32_t element) {
  return CutToBf16(value, RoundingBits(row_key, element));
}

constexpr int64_t kBf16Block = 16;

// A vector of 8 or kBf16Block elements. GCC does not allow a size that depends on a parameter.
template <int64_t N>
struct Bf16Vectors;
template <>
struct Bf16Vectors<8> {
  using U16 = uint16_t __attribute__((vector_size(16)));
  using U32 = uint32_t __attribute__((vector_size(32)));
};
template <>
struct Bf16Vectors<kBf16Block> {
  using U16 = uint16_t __attribute__((vector_size(32)));
  using U32 = uint32_t __attribute__((vector_size(64)));
};

template <int64_t N>
COX_ALWAYS_INLINE void WidenBlock(const uint16_t* from, float* to) {
  typename Bf16Vectors<N>::U16 bits;
  std::memcpy(&bits, from, sizeof(bits));
  const auto wide = __builtin_convertvector(bits, typename Bf16Vectors<N>::U32) << 16;
  std::memcpy(to, &wide, sizeof(wide));
}

// `up`: the argument of CutToBf16.
template <int64_t N>
COX_ALWAYS_INLINE void CutBlock(const typename Bf16Vectors<N>::U32& raw,
                                const typename Bf16Vectors<N>::U32& up, uint16_t* to) {
  using U32 = typename Bf16Vectors<N>::U32;
  const U32 cut = (raw & 0x7fffffffu) > 0x7f800000u ? raw | 0x400000u : raw + up;
  const auto bits = __builtin_convertvector(cut >> 16, typename Bf16Vectors<N>::U16);
  std::memcpy(to, &bits, sizeof(bits));
}

template <int64_t N>
COX_ALWAYS_INLINE void NearestBlock(const float* from, uint16_t* to) {
  typename Bf16Vectors<N>::U32 raw;
  std::memcpy(&raw, from, sizeof(raw));
  const typename Bf16Vectors<N>::U32 up = 0x7fffu + ((raw >> 16) & 1u);
  CutBlock<N>(raw, up, to);
}

// Elements `first`, `first` + 1, ... of a row.
template <int64_t N>
COX_ALWAYS_INLINE void StochasticBlock(const float* from, uint32_t row_key, uint32_t first,
                                       uint16_t* to) {
  constexpr uint32_t kElements[kBf16Block] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  typename Bf16Vectors<N>::U32 raw, x;
  std::memcpy(&raw, from, sizeof(raw));
  std::memcpy(&x, kElements, sizeof(x));
  x = row_key + (x + first) * 0x9e3779b9u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  const typename Bf16Vectors<N>::U32 up = x >> 16;
  CutBlock<N>(raw, up, to);
}

}  // namespace coxswain::ps
