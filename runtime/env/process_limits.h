// What the system lets this process have. For programs, at their start: a library leaves the limits
// of the program that uses it alone.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace coxswain::env {

// Lets the process open as many descriptors as it may: the soft limit, often 1,024, becomes the
// hard one. A daemon needs some for each peer.
void RaiseFileLimit();

// Whether this process, and those that it starts, may have enough address space (`ulimit -v`) to
// come up at all. Where threads cannot be started, gRPC waits for ever.
// Errors: FailedPrecondition with cause kConfiguration.
absl::Status CheckAddressSpace();
// The same, and `bytes` more.
bool HasAddressSpaceFor(uint64_t bytes);

}  // namespace coxswain::env
