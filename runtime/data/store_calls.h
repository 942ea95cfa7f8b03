// Calls to an object store, whose library waits for minutes where a store takes connections and
// says nothing, and cannot be told to stop.
//
// Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace coxswain::data {

// Runs `call`, on another thread, and logs a warning with `address` where it takes long. After
// EndStoreCalls returns Cancelled while `call` may still run: so it owns all that it uses.
absl::Status CallStore(const std::string& address, std::function<absl::Status()> call);

// For a process that is to end: no call is waited for from now on, and none is begun.
void EndStoreCalls();
// Whether one of those still runs. What the library does at a process's exit would wait for it.
bool StoreCallsRun();

}  // namespace coxswain::data
