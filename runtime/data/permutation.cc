#include "runtime/data/permutation.h"

#include <algorithm>

namespace coxswain::data {
namespace {

constexpr size_t kTile = 256;  // positions at a time

COX_MULTIVERSION void Apply(const FeistelNetwork& network, size_t count, uint64_t* positions) {
  const FeistelNetwork own = network;  // no position is one of its keys
  for (size_t i = 0; i < count; ++i) positions[i] = own(positions[i]);
}

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size) {
  int bits = 1;
  while (bits < 63 && (uint64_t{1} << bits) < size) ++bits;
  network_.right_bits = (bits + 1) / 2;
  network_.right_mask = (uint64_t{1} << network_.right_bits) - 1;
  network_.left_mask = (uint64_t{1} << (bits - network_.right_bits)) - 1;
  for (size_t i = 0; i < network_.keys.size(); ++i) {
    network_.keys[i] = HashPair(key, static_cast<uint64_t>(i));
  }
}

void Permutation::Map(uint64_t first, absl::Span<uint64_t> to) const {
  if (size_ <= 1) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = first + i;
    return;
  }
  // What is still outside of the range, and which position it is of.
  uint64_t walking[kTile];
  size_t of[kTile];
  for (size_t begin = 0; begin < to.size(); begin += kTile) {
    size_t left = std::min(kTile, to.size() - begin);
    for (size_t i = 0; i < left; ++i) {
      walking[i] = first + begin + i;
      of[i] = begin + i;
    }
    while (left > 0) {
      Apply(network_, left, walking);
      size_t still = 0;
      for (size_t k = 0; k < left; ++k) {
        const uint64_t image = walking[k];
        const size_t i = of[k];
        to[i] = image;
        walking[still] = image;
        of[still] = i;
        still += image >= size_ ? 1 : 0;
      }
      left = still;
    }
  }
}

}  // namespace coxswain::data
