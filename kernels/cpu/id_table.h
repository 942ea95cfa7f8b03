// A table that numbers ids in the order of their first appearance: what makes ids unique.
//
// Open addressing. A slot has the number of an id only, and the id itself is where its number says.
// A table is meant to stay with its thread from run to run: each run has numbers of its own, so
// those of earlier runs are known as such, and nothing has to be cleared.
//
// Whether an id is new cannot be foretold, and a wrong guess of the processor costs more than all
// else that is done for an id. So nothing branches on it: the id is written behind the others
// anyway, and counts if it was new. What remains is a branch for ids that share a slot.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

namespace coxswain::kernels {

// Thread model: one thread.
class IdTable {
 public:
  // Forgets all ids and makes room for `count` of them, fewer than 2^31.
  void Start(int64_t count) {
    int bits = 10;
    while ((int64_t{1} << bits) < 2 * count) ++bits;
    const auto used = static_cast<uint32_t>(count_);
    count_ = 0;
    first_ += used;
    if (bits > bits_ || first_ > std::numeric_limits<uint32_t>::max() - count) {
      const int larger = std::max(bits, bits_);
      slots_.assign(size_t{1} << larger, 0);  // may throw: what follows must match it
      bits_ = larger;
      first_ = 1;
    }
    // Only as much of the table as this run needs, so that a small run stays in the cache.
    shift_ = 64 - bits;
    if (ids_.size() <= static_cast<size_t>(count)) ids_.resize(static_cast<size_t>(count) + 1);
  }

  // Gives a large table back that many runs have not needed, so that one huge batch does not hold
  // its memory for ever. Fresh memory for each of many large batches costs more than the numbering.
  void Finish() {
    constexpr int kKeptBits = 20;  // 4 MiB, and as much for ids
    constexpr int kRunsKept = 64;
    if (bits_ <= kKeptBits) return;
    const bool needed = 64 - shift_ == bits_;
    runs_unneeded_ = needed ? 0 : runs_unneeded_ + 1;
    if (runs_unneeded_ < kRunsKept) return;
    runs_unneeded_ = 0;
    bits_ = 0;
    count_ = 0;
    std::vector<uint32_t>().swap(slots_);
    std::vector<int64_t>().swap(ids_);
  }

  // numbers[i] = the number of ids[i]: its own if it came before in this run, else the next. In all
  // of a run no more ids than Start was told.
  template <typename Id>
  void Number(const Id* ids, int64_t n, int32_t* numbers) {
    constexpr int64_t kAhead = 16;
    uint32_t* const slots = slots_.data();
    int64_t* const known = ids_.data();
    const uint32_t first = first_;
    auto count = static_cast<uint32_t>(count_);
    for (int64_t i = 0; i < std::min(n, kAhead); ++i) __builtin_prefetch(slots + Hash(ids[i]), 1);
    for (int64_t i = 0; i < n; ++i) {
      if (i + kAhead < n) __builtin_prefetch(slots + Hash(ids[i + kAhead]), 1);
      const auto id = static_cast<int64_t>(ids[i]);
      known[count] = id;
      size_t at = Hash(id);
      uint32_t number = std::min(slots[at] - first, count);
      while (known[number] != id) [[unlikely]] {
          at = (at + 1) & ((size_t{1} << (64 - shift_)) - 1);
          number = std::min(slots[at] - first, count);
        }
      slots[at] = first + number;
      count += number == count ? 1 : 0;
      numbers[i] = static_cast<int32_t>(number);
    }
    count_ = count;
  }

  // That the table has memory for, each 4 bytes.
  size_t slots() const { return slots_.size(); }

  // By their numbers. Until the next Start or Finish.
  absl::Span<const int64_t> ids() const {
    return absl::MakeConstSpan(ids_.data(), static_cast<size_t>(count_));
  }

 private:
  size_t Hash(int64_t id) const {
    return (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u) >> shift_;
  }

  // first_ + an id's number, in the run that wrote it: less than first_ are those of earlier runs.
  std::vector<uint32_t> slots_;
  std::vector<int64_t> ids_;  // one more than there may be
  int bits_ = 0, shift_ = 64;
  int runs_unneeded_ = 0;  // since the last one that filled the whole table
  uint32_t first_ = 0;
  int64_t count_ = 0;  // of this run's ids
};

}  // namespace coxswain::kernels
