// The one pool of compute threads of a process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"

namespace coxswain::env {

class ComputePool {
 public:
  virtual ~ComputePool() = default;
  // Runs `task` on a thread of the pool, some time. Never runs it in the caller.
  virtual void Schedule(absl::AnyInvocable<void()> task) = 0;
  // The same, before all that Schedule has queued; such tasks keep their order among each other.
  virtual void ScheduleFirst(absl::AnyInvocable<void()> task) { Schedule(std::move(task)); }
  // Splits [0, n) into ranges of at least `grain` and runs `body(begin, end)` over them, on this
  // thread and on idle ones of the pool; returns when all are done. With one thread, or n <= grain:
  // one call.
  virtual void ParallelFor(int64_t n, int64_t grain,
                           absl::FunctionRef<void(int64_t, int64_t)> body) = 0;
  virtual int threads() const = 0;
  // Seconds that the pool's threads have spent in tasks, summed.
  virtual double busy_seconds() const = 0;
};

// `threads` >= 1. Destroying the pool runs what is queued and joins.
std::unique_ptr<ComputePool> NewComputePool(int threads);
// Runs everything in the calling thread (tests, tools): Schedule runs at once.
std::unique_ptr<ComputePool> NewInlinePool();

}  // namespace coxswain::env
