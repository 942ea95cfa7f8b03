// Memory behind tensors and frames: reference counted, 64-byte aligned, on one device.
//
// A Buffer is a handle on a range of a shared block; copying it copies the handle. Blocks of host
// memory come from lists of free blocks by size, small ones kept per thread and all others shared,
// so that a step makes no calls to the system. Thread model: handles are values; the block's count
// is atomic; the bytes are not guarded.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "runtime/tensor/device.h"

namespace coxswain {

constexpr size_t kBufferAlignment = 64;

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer other) noexcept;
  ~Buffer();

  // Uninitialised host memory.
  static Buffer Allocate(size_t bytes);
  // Memory owned by someone else; `release` runs once when the last handle is gone, on any thread.
  static Buffer Wrap(void* data, size_t bytes, Device device, std::function<void()> release);

  // A handle on bytes [offset, offset + bytes) of this one.
  Buffer Slice(size_t offset, size_t bytes) const;

  void* data() const { return data_; }
  size_t size() const { return size_; }
  Device device() const;
  bool empty() const { return size_ == 0; }
  // No other handle shares the block, so its bytes may be changed in place.
  bool Unique() const;

 private:
  struct Block;
  explicit Buffer(Block* block, void* data, size_t size)
      : block_(block), data_(data), size_(size) {}

  Block* block_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Bytes of host memory that are handed out now, and how often the cache had to ask the system.
struct AllocatorStats {
  int64_t live_bytes = 0;
  int64_t system_allocations = 0;
};
AllocatorStats GetAllocatorStats();

}  // namespace coxswain
