// A table that numbers ids in the order of their first appearance: what makes ids unique.
//
// Open addressing. A table is meant to stay with its thread from run to run: a slot carries the
// stamp of the run that filled it, so nothing has to be cleared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace coxswain::kernels {

// Thread model: one thread.
class IdTable {
 public:
  // Forgets all ids and makes room for `count` of them.
  void Start(int64_t count) {
    int bits = 10;
    while ((int64_t{1} << bits) < 2 * count) ++bits;
    if (bits > bits_ || stamp_ == std::numeric_limits<uint32_t>::max()) {
      const int larger = std::max(bits, bits_);
      slots_.assign(size_t{1} << larger, Slot{});  // may throw: what follows must match it
      bits_ = larger;
      stamp_ = 0;
    }
    ++stamp_;
    // Only as much of the table as this run needs, so that a small run stays in the cache.
    mask_ = (size_t{1} << bits) - 1;
    shift_ = 64 - bits;
    ids_.clear();
    ids_.reserve(static_cast<size_t>(count));
  }

  // Gives a large table back that many runs have not needed, so that one huge batch does not hold
  // its memory for ever. Fresh memory for each of many large batches costs more than the numbering.
  void Finish() {
    constexpr int kKeptBits = 20;  // 16 MiB
    constexpr int kRunsKept = 64;
    if (bits_ <= kKeptBits) return;
    const bool needed = 64 - shift_ == bits_;
    runs_unneeded_ = needed ? 0 : runs_unneeded_ + 1;
    if (runs_unneeded_ < kRunsKept) return;
    runs_unneeded_ = 0;
    bits_ = 0;
    std::vector<Slot>().swap(slots_);
    std::vector<int64_t>().swap(ids_);
  }

  void Prefetch(int64_t id) const { __builtin_prefetch(&slots_[Hash(id)], 1); }

  // The number of `id`: its own if it came before, else the next.
  int32_t Number(int64_t id) {
    size_t at = Hash(id);
    while (true) {
      Slot& slot = slots_[at];
      if (slot.stamp != stamp_) {
        slot = {id, stamp_, static_cast<int32_t>(ids_.size())};
        ids_.push_back(id);
        return slot.number;
      }
      if (slot.id == id) return slot.number;
      at = (at + 1) & mask_;
    }
  }

  // That the table has memory for, each 16 bytes.
  size_t slots() const { return slots_.size(); }

  // By their numbers.
  const std::vector<int64_t>& ids() const { return ids_; }

 private:
  struct Slot {
    int64_t id = 0;
    uint32_t stamp = 0;
    int32_t number = 0;
  };
  size_t Hash(int64_t id) const {
    return (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u) >> shift_;
  }

  std::vector<Slot> slots_;
  std::vector<int64_t> ids_;
  size_t mask_ = 0;
  int bits_ = 0, shift_ = 64;
  int runs_unneeded_ = 0;  // since the last one that filled the whole table
  uint32_t stamp_ = 0;
};

}  // namespace coxswain::kernels
