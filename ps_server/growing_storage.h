// Memory that grows in place, for arrays whose readers keep pointers into them.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "ps_server/table_file.h"

namespace coxswain::ps {

// A range of addresses of which a growing prefix is memory, or bytes of a file that are in memory
// while they are used. Not thread-safe by itself; the bytes of the prefix do not move while it
// grows.
class GrowingStorage {
 public:
  GrowingStorage() = default;

  // Reserves addresses for `max_bytes`, but no memory. Errors: ResourceExhausted.
  static absl::StatusOr<GrowingStorage> Create(size_t max_bytes);
  // The same in `file`, or in memory if there is none. Errors: also those of TableFile.
  static absl::StatusOr<GrowingStorage> CreateInFile(size_t max_bytes, TableFile file);

  // Makes at least the first `bytes` usable; new bytes are zero. Pages are allocated on first use,
  // those of a file on the disk at once.
  // Errors: ResourceExhausted above max_bytes or when the system refuses; then nothing has changed.
  absl::Status Grow(size_t bytes);

  char* data() const { return static_cast<char*>(range_.data()); }
  size_t bytes() const { return bytes_; }  // usable now
  size_t max_bytes() const { return max_bytes_; }
  // A handle on the whole range, which keeps it mapped.
  const Buffer& range() const { return range_; }

 private:
  absl::Status MakeUsable(size_t end);

  Buffer range_;
  TableFile file_;  // none: it is memory
  size_t max_bytes_ = 0;
  size_t bytes_ = 0;
};

// Addresses that Create may still reserve, so that those of the process do not run out: a thread's
// stack needs some, too.
size_t AddressesLeft();

// The physical memory of this machine, an upper bound for any table.
size_t PhysicalMemoryBytes();

// Returns the pages that are wholly in [data, data + bytes) to the system. They read as zeros.
void ReleasePages(void* data, size_t bytes);

}  // namespace coxswain::ps
