// Between f32 and bf16, in loops that vectorise.
#pragma once

#include <bit>
#include <cstdint>

#include "ps_server/multiversion.h"
#include "ps_server/row_block.h"
#include "runtime/base/id_hash.h"
#include "runtime/tensor/dtype.h"

namespace coxswain {

COX_ALWAYS_INLINE float WidenBf16(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Adds `up`, at most 0xffff, below the last bit that stays, and cuts. NaN stays NaN.
COX_ALWAYS_INLINE BFloat16 CutToBf16(float value, uint32_t up) {
  const uint32_t raw = std::bit_cast<uint32_t>(value);
  const bool nan = (raw & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<uint16_t>((nan ? raw | 0x400000u : raw + up) >> 16)};
}

// To nearest, ties to even, as BFloat16::FromFloat.
COX_ALWAYS_INLINE BFloat16 NearestBf16(float value) {
  return CutToBf16(value, 0x7fffu + ((std::bit_cast<uint32_t>(value) >> 16) & 1u));
}

// What all elements of a row share.
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

}  // namespace coxswain
