// The structs behind the C table's pointers, and what both builds have in common. device_cuda.cu
// has them on a GPU, host/device_host.cc in the host's memory.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/stream_memory.h"

namespace coxswain::cuda {

// Work of a stream that was not started yet, for what comes next may join it. Whatever else is
// enqueued on the stream starts it first (Flush).
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  virtual Status Start(CoxStream* stream) = 0;
};

}  // namespace coxswain::cuda

struct CoxStream {
  CoxStream(CoxDevice* on, size_t most_kept) : device(on), memory(most_kept) {}

  CoxDevice* const device;
  coxswain::cuda::Queue queue;
  coxswain::cuda::StreamMemory memory;  // not used by the emulated device
  std::unique_ptr<coxswain::cuda::PendingWork> pending;
  // What was put off could not be started, and whoever enqueued it believes that it was.
  coxswain::cuda::Status lost;
  std::vector<void*> released;  // while work is pending, which may use it
};

namespace coxswain::cuda {

// The functions of devices, memory, streams and events; leaves those of ops as they are.
void FillDeviceTable(CoxDeviceApi* table);

// Makes the calling thread's CUDA calls go to the device.
Status Use(CoxDevice* device);

// Starts what is pending. Each function of the table that enqueues something calls it, but for
// those whose work may join it, and for release_on, which lays the memory aside while there is work
// that may use it. Errors: COX_DEVICE_LOST from then on if that once was the error of work that was
// put off.
Status Flush(CoxStream* stream);
bool LayAside(CoxStream* stream, void* memory);

// Enqueued on the stream, as allocate_on, release_on and so on of the table.
Status AllocateOn(CoxStream* stream, size_t bytes, void** memory);
void ReleaseOn(CoxStream* stream, void* memory);
Status FillZero(CoxStream* stream, void* memory, size_t bytes);
Status CopyOnDevice(CoxStream* stream, void* to, const void* from, size_t bytes);

// copy_on_device of the table, in copy.cu.
Status CopyWithinDevice(CoxStream* stream, void* to, const void* from, size_t bytes);

// Memory for what is enqueued until this goes.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (memory_ != nullptr) ReleaseOn(stream_, memory_);
  }

  Status Allocate(CoxStream* stream, size_t bytes) {
    stream_ = stream;
    return AllocateOn(stream, bytes, &memory_);
  }
  template <typename T>
  T* data() const {
    return static_cast<T*>(memory_);
  }

 private:
  CoxStream* stream_ = nullptr;
  void* memory_ = nullptr;
};

// The code, with the status's message in `error`.
int32_t Answer(const Status& status, CoxError* error);

// Calls f, which returns a Status, for a function of the table: no exception leaves it.
template <typename F>
int32_t Guarded(CoxError* error, const F& f) {
  try {
    return Answer(f(), error);
  } catch (const std::bad_alloc&) {
    return Answer(Status(COX_RESOURCE_EXHAUSTED, "out of host memory"), error);
  } catch (...) {
    return Answer(Status(COX_INTERNAL, "an unknown exception"), error);
  }
}

}  // namespace coxswain::cuda
