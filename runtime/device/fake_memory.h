// The memory of a FakeDevice: an address range that may not be touched, and bytes at the same
// offsets of another range, where they may.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace coxswain::device {

// Thread-safe.
class FakeMemory {
 public:
  static absl::StatusOr<std::unique_ptr<FakeMemory>> Map(size_t bytes);
  ~FakeMemory();

  // An address that must not be touched. Null when there is not enough left.
  void* Allocate(size_t bytes);
  // Fills it with set bits.
  void Free(void* memory, size_t bytes);
  // Where the byte behind an address from Allocate can be read and written.
  void* Inside(const void* memory) const {
    return inside_ + (static_cast<const char*>(memory) - outside_);
  }
  // The same of whichever memory of this process the address is from.
  static void* InsideOfAny(const void* memory);
  void Spoil(void* memory, size_t bytes) const;
  size_t live_bytes() const;

 private:
  FakeMemory(char* outside, char* inside, size_t bytes);

  char* const outside_;
  char* const inside_;
  const size_t bytes_;
  mutable absl::Mutex mu_;
  size_t used_ ABSL_GUARDED_BY(mu_) = 0;  // from the beginning; what is free below is in the lists
  size_t live_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::vector<size_t>> free_ ABSL_GUARDED_BY(mu_);  // offsets by class
};

}  // namespace coxswain::device
