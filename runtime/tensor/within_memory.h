// CatchAllocationErrors for what returns a value.
#pragma once

#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/tensor/limits.h"

namespace coxswain {

// What `run` returns, a StatusOr; ResourceExhausted when it could not have the memory that it
// wanted.
template <typename Run>
std::invoke_result_t<Run> WithinMemory(Run run) {
  std::invoke_result_t<Run> result;
  absl::Status memory = CatchAllocationErrors([&] {
    result = run();
    return absl::OkStatus();
  });
  if (!memory.ok()) return memory;
  return result;
}

}  // namespace coxswain
