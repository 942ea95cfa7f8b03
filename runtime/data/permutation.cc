#include "runtime/data/permutation.h"

#include <vector>

namespace coxswain::data {

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size) {
  int bits = 1;
  while (bits < 63 && (uint64_t{1} << bits) < size) ++bits;
  right_bits_ = (bits + 1) / 2;
  right_mask_ = (uint64_t{1} << right_bits_) - 1;
  left_mask_ = (uint64_t{1} << (bits - right_bits_)) - 1;
  for (int i = 0; i < kRounds; ++i) {
    keys_[static_cast<size_t>(i)] = HashPair(key, static_cast<uint64_t>(i));
  }
}

void Permutation::Map(uint64_t first, absl::Span<uint64_t> to) const {
  if (size_ <= 1) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = first + i;
    return;
  }
  std::vector<size_t> outside(to.size());  // of the range, still
  size_t left = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = Once(first + i);
    outside[left] = i;
    left += to[i] >= size_ ? 1 : 0;
  }
  while (left > 0) {
    size_t still = 0;
    for (size_t k = 0; k < left; ++k) {
      const size_t i = outside[k];
      to[i] = Once(to[i]);
      outside[still] = i;
      still += to[i] >= size_ ? 1 : 0;
    }
    left = still;
  }
}

}  // namespace coxswain::data
