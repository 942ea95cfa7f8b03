// Hash sharding of a table whose rows are [0, rows): a fixed permutation sends each row to a place
// in [0, rows), and places go to shards by "mod": shard place % count, local row place / count. So
// shards are of the same size whatever the ids are, and places do not depend on the number of
// shards. Checkpoints and saved models depend on its values, so they never change. In Python:
//
//   def place_of(row, rows):
//       bits = max(2, (rows - 1).bit_length()); half = (bits + 1) // 2; last = 2**bits - 1
//       while True:
//           row = (row + 0x9e3779b97f4a7c15) & last; row ^= row >> half
//           row = row * 0xbf58476d1ce4e5b9 & last; row ^= row >> half
//           row = row * 0x94d049bb133111eb & last; row ^= row >> half
//           if row < rows: return row
#pragma once

#include <bit>
#include <cstdint>

namespace coxswain {

// Thread model: a value. O(1): on average at most two rounds each way.
class RowMix {
 public:
  // 0 <= rows <= 2^62.
  explicit RowMix(int64_t rows) : rows_(static_cast<uint64_t>(rows)) {
    const int bits = rows_ <= 4 ? 2 : std::bit_width(rows_ - 1);
    half_ = (bits + 1) / 2;
    mask_ = (uint64_t{1} << bits) - 1;
  }

  // 0 <= row < rows.
  int64_t Place(int64_t row) const {
    auto x = static_cast<uint64_t>(row);
    // Out of the range the walk goes on: it is a cycle of the larger permutation, and comes back.
    do {
      x = Fold((x + kAdd) & mask_);
      x = Fold((x * kFirst) & mask_);
      x = Fold((x * kSecond) & mask_);
    } while (x >= rows_);
    return static_cast<int64_t>(x);
  }
  // The row whose place it is.
  int64_t Row(int64_t place) const {
    auto x = static_cast<uint64_t>(place);
    do {
      x = (Fold(x) * Inverse(kSecond)) & mask_;
      x = (Fold(x) * Inverse(kFirst)) & mask_;
      x = (Fold(x) - kAdd) & mask_;
    } while (x >= rows_);
    return static_cast<int64_t>(x);
  }

 private:
  static constexpr uint64_t kAdd = 0x9e3779b97f4a7c15, kFirst = 0xbf58476d1ce4e5b9,
                            kSecond = 0x94d049bb133111eb;  // odd, so they have inverses
  // Modulo 2^64, and so modulo any smaller power of 2: Newton's iteration doubles the good bits.
  static constexpr uint64_t Inverse(uint64_t odd) {
    uint64_t x = odd;
    for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
    return x;
  }
  // Its own inverse, as half_ is at least half of the bits.
  uint64_t Fold(uint64_t x) const { return x ^ (x >> half_); }

  uint64_t rows_;
  uint64_t mask_;
  int half_;
};

}  // namespace coxswain
