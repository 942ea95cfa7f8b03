// Memory for the rows of a table, shared by the versions of it that are held at the same time. A
// row lies in a slot, and a version names a slot for each of its rows. A slot is written before the
// version that first names it is handed out, and not again before all versions that name it have
// ended. So readers need no lock, and a row that two versions have in common is in memory once.
//
// Slots are in slabs of at most 1 MiB. A slab of which all slots are free goes back to the system.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"

namespace coxswain::model {

// The addresses of slots, for the reader of a version.
class SlotAddresses {
 public:
  SlotAddresses() = default;
  SlotAddresses(std::vector<char*> slabs, int shift, size_t slot_bytes)
      : slabs_(std::move(slabs)), shift_(shift), slot_bytes_(slot_bytes) {}
  // `slot` is one that the version names.
  char* At(uint32_t slot) const {
    return slabs_[slot >> shift_] + (slot & ((uint32_t{1} << shift_) - 1)) * slot_bytes_;
  }

 private:
  std::vector<char*> slabs_;
  int shift_ = 0;
  size_t slot_bytes_ = 0;
};

class RowSlots {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  // `rows`: about how many there will be; where they are few, slabs are smaller.
  RowSlots(size_t slot_bytes, int64_t rows);

  // A slot that no version names, and its memory, which is uninitialised. Errors:
  // ResourceExhausted.
  struct Slot {
    uint32_t number = kNone;
    char* memory = nullptr;
  };
  absl::StatusOr<Slot> Take();
  // For slots that were taken, and which no version names.
  void GiveBack(absl::Span<const uint32_t> slots);
  // Of all slots that are taken now.
  SlotAddresses Addresses() const;

  // Begins a version. Versions are numbered in this order.
  uint64_t Begin();
  // The newest version no longer names these slots, which the one before it named: they are free
  // once all older versions have ended.
  void Retire(std::vector<uint32_t> slots);
  void End(uint64_t version);

  // Of all slabs.
  int64_t bytes() const;

 private:
  struct Slab {
    Tensor memory;               // none: the number is free
    uint32_t fresh = 0;          // slots from here on were never taken
    std::vector<uint32_t> free;  // of the others
    uint32_t used = 0;
  };
  struct Retired {
    uint64_t before = 0;  // versions below this number name the slots
    std::vector<uint32_t> slots;
  };
  absl::StatusOr<uint32_t> AddSlab() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(absl::Span<const uint32_t> slots) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t slot_bytes_;
  const int shift_;  // a slab has 1 << shift_ slots
  mutable absl::Mutex mutex_;
  std::vector<Slab> slabs_ ABSL_GUARDED_BY(mutex_);
  std::set<uint32_t> open_ ABSL_GUARDED_BY(mutex_);     // slabs with free slots
  std::set<uint32_t> numbers_ ABSL_GUARDED_BY(mutex_);  // of slabs that went back to the system
  uint64_t next_version_ ABSL_GUARDED_BY(mutex_) = 1;
  std::set<uint64_t> live_ ABSL_GUARDED_BY(mutex_);
  std::deque<Retired> retired_ ABSL_GUARDED_BY(mutex_);  // by ascending `before`
};

}  // namespace coxswain::model
