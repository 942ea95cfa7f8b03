#include "runtime/data/permutation.h"

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

}  // namespace coxswain::data
