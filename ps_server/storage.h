// Memory for shards.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "runtime/base/status.h"

namespace coxswain::ps {

// `bytes` of zeroed memory, aligned to 64 bytes. From 2 MiB on it is a separate mapping, aligned
// for huge pages and advised to use them (random rows are read 38-62 % faster with them), and is
// returned to the system with the last handle. Errors: ResourceExhausted when the system has no
// memory.
absl::StatusOr<Buffer> AllocateStorage(size_t bytes);

// Whether `bytes` more can be had, for something that has `whole` bytes then. The system promises
// memory that it does not have, and ends some process when that is used, often the parameter
// server. What is small as a whole is not looked at. Errors: ResourceExhausted, which says how much
// is free.
absl::Status CheckRoom(size_t bytes, size_t whole);

// AllocateStorage of what will be used as a whole: takes all of its pages, and looks now and then
// whether there is room for the rest, as neighbours may take memory at the same time.
absl::StatusOr<Buffer> AllocateFilledStorage(size_t bytes);

// Values that are all zero, and take no memory before they are written: for what stays sparse.
template <typename T>
using Zeros = std::unique_ptr<T[], decltype(&std::free)>;

// As malloc aligns it. Errors: ResourceExhausted.
absl::StatusOr<void*> AllocateZeroBytes(size_t count, size_t bytes_each);

// At least one. Errors: ResourceExhausted.
template <typename T>
absl::StatusOr<Zeros<T>> AllocateZeros(size_t count) {
  ASSIGN_OR_RETURN(void* const zeros, AllocateZeroBytes(count, sizeof(T)));
  return Zeros<T>(static_cast<T*>(zeros), &std::free);
}

}  // namespace coxswain::ps
