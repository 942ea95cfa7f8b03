// Everything a service takes from the outside world comes through here, so that the simulator can
// give it another world. No code but runtime/env reads a clock, sleeps, draws entropy or opens a
// file for writing state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "runtime/env/compute_pool.h"
#include "runtime/env/event_loop.h"
#include "runtime/env/file_system.h"

namespace coxswain::env {

class Env {
 public:
  virtual ~Env() = default;
  virtual absl::Time Now() = 0;            // wall clock; for people, never for timeouts
  virtual absl::Duration Monotonic() = 0;  // since some fixed moment
  virtual uint64_t Random64() = 0;         // for incarnations and tokens
  virtual std::unique_ptr<EventLoop> NewLoop() = 0;
  // A loop whose tasks compute (a lane of a PS): what does not run on a borrowed thread has threads
  // of its own, as many as the pool, so that it neither holds up other loops nor waits for what
  // the pool writes to a disk.
  virtual std::unique_ptr<EventLoop> NewComputeLoop() { return NewLoop(); }
  virtual ComputePool* pool() = 0;
  virtual FileSystem* files() = 0;
  // A named place in a protocol where tests let things fail. Does nothing in production.
  virtual void FaultPoint(const char* name) { (void)name; }
};

// The real world, with a pool of `threads` (0: as many as the machine has cores).
std::unique_ptr<Env> NewRealEnv(int threads);

}  // namespace coxswain::env
