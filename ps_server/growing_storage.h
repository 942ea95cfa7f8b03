// Memory that grows in place, for arrays whose readers keep pointers into them.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coxswain/tensor.h"

namespace coxswain::ps {

// A range of addresses of which a growing prefix is memory. Thread model: the caller's; the bytes
// of the prefix stay where they are while it grows.
class GrowingStorage {
 public:
  GrowingStorage() = default;

  // Takes addresses for `max_bytes`, and no memory. Errors: ResourceExhausted.
  static absl::StatusOr<GrowingStorage> Create(size_t max_bytes);

  // Makes at least the first `bytes` usable; new ones are zero. Pages come with their first use.
  // Errors: ResourceExhausted above max_bytes or when the system refuses; then nothing has changed.
  absl::Status Grow(size_t bytes);

  char* data() const { return static_cast<char*>(range_.data()); }
  size_t bytes() const { return bytes_; }  // usable now
  size_t max_bytes() const { return max_bytes_; }
  // A handle on the whole range, which keeps it mapped.
  const Buffer& range() const { return range_; }

 private:
  Buffer range_;
  size_t max_bytes_ = 0;
  size_t bytes_ = 0;
};

// What this machine has: no table of one process can be larger.
size_t PhysicalMemoryBytes();

// Gives the pages that lie wholly in [data, data + bytes) back to the system. They read as zeros.
void ReleasePages(void* data, size_t bytes);

}  // namespace coxswain::ps
