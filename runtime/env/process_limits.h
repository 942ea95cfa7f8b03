// What the system lets this process have. For programs, at their start: a library leaves the limits
// of the program that uses it alone.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace coxswain::env {

// The most compute threads that a flag may want.
constexpr int kMostThreads = 1024;

// Lets the process open as many descriptors as it may: the soft limit, often 1,024, becomes the
// hard one. A daemon needs some for each peer.
void RaiseFileLimit();

// Whether this process, and those that it starts, may have enough address space (`ulimit -v`) to
// come up at all. Where threads cannot be started, gRPC waits for ever.
// Errors: FailedPrecondition with cause kConfiguration.
absl::Status CheckAddressSpace();
// The same, and `bytes` more.
bool HasAddressSpaceFor(uint64_t bytes);
// CheckAddressSpace, and whether there is room for the stacks of the threads that `flag` wants.
absl::Status CheckThreads(absl::string_view flag, int64_t threads);

}  // namespace coxswain::env
