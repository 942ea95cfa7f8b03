#include "tests/bench/step/heap.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace coxswain {
namespace {

// One writer each, so that counting costs what it would without other threads. Threads beyond the
// last slot share it.
struct alignas(64) Slot {
  std::atomic<int64_t> allocations{0}, bytes{0};
};
constexpr int kSlots = 512;
Slot g_slots[kSlots];
std::atomic<int> g_threads{0};
thread_local int t_slot = -1;

void Count(size_t bytes) {
  if (t_slot < 0) {
    const int next = g_threads.fetch_add(1, std::memory_order_relaxed);
    t_slot = next < kSlots ? next : kSlots - 1;
  }
  Slot& slot = g_slots[t_slot];
  const auto add = [shared = t_slot == kSlots - 1](std::atomic<int64_t>* sum, int64_t n) {
    if (shared) {
      sum->fetch_add(n, std::memory_order_relaxed);
    } else {
      sum->store(sum->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
  };
  add(&slot.allocations, 1);
  add(&slot.bytes, static_cast<int64_t>(bytes));
}

void* CountedAllocation(size_t bytes, size_t alignment) {
  Count(bytes);
  if (bytes == 0) bytes = 1;
  void* p = alignment == 0
                ? std::malloc(bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

HeapCount ReadHeapCount() {
  HeapCount sum;
  for (const Slot& slot : g_slots) {
    sum.allocations += slot.allocations.load(std::memory_order_relaxed);
    sum.bytes += slot.bytes.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace coxswain

// The forms that are not given here call these.
void* operator new(size_t bytes) { return coxswain::CountedAllocation(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return coxswain::CountedAllocation(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
