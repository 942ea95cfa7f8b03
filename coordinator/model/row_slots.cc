#include "coordinator/model/row_slots.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/tensor/limits.h"

namespace coxswain::model {
namespace {

constexpr size_t kSlabBytes = 1 << 20;
constexpr int64_t kSlabs = 32;  // of a small table
constexpr uint64_t kMinSlabSlots = 16;
constexpr uint64_t kMaxSlabSlots = 1 << 16;

// As many slots as fit, a power of two; no more than are of use.
int ShiftFor(size_t slot_bytes, int64_t rows) {
  const auto wanted = std::clamp<uint64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(rows / kSlabs, 1, int64_t{1} << 32))),
      kMinSlabSlots, kMaxSlabSlots);
  const uint64_t fit = std::bit_floor(std::max<uint64_t>(1, kSlabBytes / slot_bytes));
  return std::countr_zero(std::min(wanted, fit));
}

}  // namespace

RowSlots::RowSlots(size_t slot_bytes, int64_t rows)
    : slot_bytes_(std::max<size_t>(1, slot_bytes)), shift_(ShiftFor(slot_bytes_, rows)) {}

absl::StatusOr<uint32_t> RowSlots::AddSlab() {
  const uint32_t most = kNone >> shift_;  // below it no slot has the number kNone
  uint32_t number = static_cast<uint32_t>(slabs_.size());
  if (!numbers_.empty()) number = *numbers_.begin();
  if (number >= most) return absl::ResourceExhaustedError("a table in memory has 2^32 rows");
  const auto bytes = static_cast<int64_t>(slot_bytes_ << shift_);
  ASSIGN_OR_RETURN(Tensor memory, AllocateTensor(DType::kBool, Shape{bytes}));
  if (number == slabs_.size()) slabs_.emplace_back();
  numbers_.erase(number);
  slabs_[number].memory = std::move(memory);
  open_.insert(number);
  return number;
}

absl::StatusOr<RowSlots::Slot> RowSlots::Take() {
  absl::MutexLock lock(&mutex_);
  // The lowest numbers first, so that the last slabs become free.
  uint32_t number = 0;
  if (open_.empty()) {
    ASSIGN_OR_RETURN(number, AddSlab());
  } else {
    number = *open_.begin();
  }
  Slab& slab = slabs_[number];
  uint32_t at = 0;
  if (slab.free.empty()) {
    at = slab.fresh++;
  } else {
    at = slab.free.back();
    slab.free.pop_back();
  }
  ++slab.used;
  if (slab.free.empty() && slab.fresh >> shift_ != 0) open_.erase(number);
  return Slot{number << shift_ | at,
              static_cast<char*>(slab.memory.mutable_raw()) + at * slot_bytes_};
}

void RowSlots::Free(absl::Span<const uint32_t> slots) {
  for (const uint32_t slot : slots) {
    const uint32_t number = slot >> shift_;
    Slab& slab = slabs_[number];
    slab.free.push_back(slot & ((uint32_t{1} << shift_) - 1));
    open_.insert(number);
    if (--slab.used > 0) continue;
    slab = Slab();
    open_.erase(number);
    numbers_.insert(number);
  }
}

void RowSlots::GiveBack(absl::Span<const uint32_t> slots) {
  absl::MutexLock lock(&mutex_);
  Free(slots);
}

SlotAddresses RowSlots::Addresses() const {
  absl::MutexLock lock(&mutex_);
  std::vector<char*> slabs;
  slabs.reserve(slabs_.size());
  for (const Slab& slab : slabs_) {
    const void* const memory = slab.memory.has_value() ? slab.memory.raw() : nullptr;
    slabs.push_back(static_cast<char*>(const_cast<void*>(memory)));
  }
  return SlotAddresses(std::move(slabs), shift_, slot_bytes_);
}

uint64_t RowSlots::Begin() {
  absl::MutexLock lock(&mutex_);
  live_.insert(next_version_);
  return next_version_++;
}

void RowSlots::Retire(std::vector<uint32_t> slots) {
  absl::MutexLock lock(&mutex_);
  const uint64_t newest = next_version_ - 1;
  if (live_.empty() || *live_.begin() >= newest) return Free(slots);
  retired_.push_back({newest, std::move(slots)});
}

void RowSlots::End(uint64_t version) {
  absl::MutexLock lock(&mutex_);
  live_.erase(version);
  while (!retired_.empty() && (live_.empty() || *live_.begin() >= retired_.front().before)) {
    Free(retired_.front().slots);
    retired_.pop_front();
  }
}

int64_t RowSlots::bytes() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>((slabs_.size() - numbers_.size()) * (slot_bytes_ << shift_));
}

}  // namespace coxswain::model
