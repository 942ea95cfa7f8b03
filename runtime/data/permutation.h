// Random orders and samples that need no memory: any element can be computed by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/base/multiversion.h"
#include "runtime/data/hash.h"

namespace coxswain::data {

// A permutation of [0, 2^bits). Thread model: a value.
struct FeistelNetwork {
  static constexpr int kRounds = 8;  // a multiple of 2: the halves keep their widths

  int right_bits = 0;
  uint64_t left_mask = 0;
  uint64_t right_mask = 0;
  std::array<uint64_t, kRounds> keys = {};

  COX_ALWAYS_INLINE uint64_t operator()(uint64_t x) const {
    uint64_t left = x >> right_bits;
    uint64_t right = x & right_mask;
    for (size_t round = 0; round < kRounds; round += 2) {
      left ^= Scramble(right ^ keys[round]) & left_mask;
      right ^= Scramble(left ^ keys[round + 1]) & right_mask;
    }
    return left << right_bits | right;
  }

 private:
  static COX_ALWAYS_INLINE uint64_t Scramble(uint64_t x) {
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x >> 32;
  }
};

// A permutation of [0, size) drawn by `key`: a Feistel network on the next power of two, walked
// until it is back in the range (at most 2 rounds through the network on average). Thread model: a
// value.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key);

  // The image of `position` < size. O(1).
  uint64_t operator()(uint64_t position) const {
    if (size_ <= 1) return position;
    do {
      position = network_(position);
    } while (position >= size_);
    return position;
  }

  // The images of `to.size()` positions from `first` on. Works on many positions at a time, because
  // single walks stall on branches that cannot be predicted, and vectors of them go through the
  // network together.
  void Map(uint64_t first, absl::Span<uint64_t> to) const;

 private:
  uint64_t size_;
  FeistelNetwork network_;
};

// Calls `take(index)` for `count` different indices in [0, population), a uniform sample without
// replacement drawn by `key`, in no particular order; 0 <= count <= population. O(count) time, plus
// population / 64 for small populations, and no allocation.
template <typename Take>
void SampleIndices(uint64_t key, uint32_t population, uint32_t count, Take take) {
  constexpr uint32_t kMapped = 8192;
  if (population > kMapped) {
    const Permutation order(population, key);
    for (uint32_t i = 0; i < count; ++i) take(static_cast<uint32_t>(order(i)));
    return;
  }
  // Floyd's method, with a bit for each index.
  uint64_t taken[kMapped / 64];
  for (uint32_t word = 0; word <= population / 64 && word < kMapped / 64; ++word) taken[word] = 0;
  for (uint32_t last = population - count; last < population; ++last) {
    uint32_t pick = static_cast<uint32_t>(Bounded(Mix64(key + last), uint64_t{last} + 1));
    if ((taken[pick / 64] >> (pick % 64) & 1) != 0) pick = last;
    taken[pick / 64] |= uint64_t{1} << (pick % 64);
    take(pick);
  }
}

}  // namespace coxswain::data
