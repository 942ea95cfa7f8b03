// What the allocator of tensors' memory counts.
#pragma once

#include <cstdint>

namespace coxswain {

// Bytes of host memory that are handed out now, and how often the cache had to ask the system.
struct AllocatorStats {
  int64_t live_bytes = 0;
  int64_t system_allocations = 0;
};
AllocatorStats GetAllocatorStats();

}  // namespace coxswain
