// A device that is none: it proves on any machine that code treats device memory as such.
//
// - Tensors carry addresses that may not be touched: whoever reads or writes device memory from the
//   host ends the process at that very place. The device itself knows where the bytes are.
// - A stream runs what it is given later, on an event loop, after delays drawn from a seed; in a
//   simulated world in its time.
// - New memory, and memory that was given back, holds NaN (all bits set); so does host memory from
//   when a copy to it is enqueued until it is done.
// - It runs the CPU's kernels, so it has every op whose outputs' shapes follow from those of its
//   inputs.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/device_runtime.h"
#include "runtime/env/env.h"
#include "runtime/graph/op.h"

namespace coxswain::device {

struct FakeDeviceOptions {
  int index = 0;
  size_t memory_bytes = size_t{1} << 32;  // of address space; what is touched takes memory
  uint64_t seed = 1;                      // of the delays
  // The longest delay before a stream goes on; zero: none.
  absl::Duration max_delay = absl::Microseconds(200);
  int64_t break_after_ops = -1;  // it is lost when as many were enqueued; -1: never
  // A defect, for tests that such a thing is found: it says too early that all is done.
  bool notifies_early = false;
  // Another one: its streams do not wait for each other.
  bool forgets_waits = false;
};

// What was done since it was made.
struct FakeDeviceStats {
  int64_t copies_to_device = 0;
  int64_t copies_to_host = 0;
  int64_t copies_from_devices = 0;  // other ones
  int64_t ops = 0;
  int64_t allocations = 0;  // of its streams
  int64_t live_bytes = 0;
  int64_t bytes_to_device = 0, bytes_to_host = 0;
  int64_t notifications = 0;  // that were asked for
};

class FakeDevice : public DeviceRuntime {
 public:
  // `env` must outlive it. Errors: of the system, when it does not give the address space.
  static absl::StatusOr<std::unique_ptr<FakeDevice>> Make(env::Env* env,
                                                          const FakeDeviceOptions& options);

  // Streams whose loops will never run again (those of a dead process in a simulated world) run to
  // their ends here. Whether anything was left to run.
  virtual bool Drain() = 0;
  virtual FakeDeviceStats stats() const = 0;
  // From now on nothing works: as after an error that no one recovers from.
  virtual void Break() = 0;

 protected:
  using DeviceRuntime::DeviceRuntime;
};

}  // namespace coxswain::device
