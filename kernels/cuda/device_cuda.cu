// Devices, memory, streams and events of CUDA's runtime.
//
// Memory of streams comes from the device's default pool, which is told to keep what it has; and a
// stream keeps what it gave back (stream_memory.h), until memory runs out for any of the handle's.
// All streams are non-blocking, so that the legacy stream, which only plain memory uses, stops none
// of them.
#include <stdio.h>
#include <string.h>

#include <memory>

#include "kernels/cuda/device_cuda.h"

struct CoxEvent {
  CoxDevice* device;
  cudaEvent_t event;
};

namespace coxswain::cuda {
namespace {

// After these nothing works on the device in this process any more.
bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorContained:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

CoxCode CodeOf(cudaError_t error) {
  if (IsSticky(error)) return COX_DEVICE_LOST;
  switch (error) {
    case cudaErrorMemoryAllocation:
      return COX_RESOURCE_EXHAUSTED;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
      return COX_FAILED_PRECONDITION;
    default:
      return COX_INTERNAL;
  }
}

// `what`: the call that gave `error`. Takes the error off the thread's record, so that the next
// launch does not find it there.
Status Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status();
  (void)cudaGetLastError();
  return Status(CodeOf(error), std::string(what) + ": " + cudaGetErrorName(error) + ", " +
                                   cudaGetErrorString(error));
}
#define COX_CHECK_CUDA(call) COX_CUDA_RETURN_IF_ERROR(Check(call, #call))

// ---- devices

int32_t DeviceCount(int32_t* count, CoxError* error) {
  return Guarded(error, [&] {
    int found = 0;
    *count = 0;
    COX_CHECK_CUDA(cudaGetDeviceCount(&found));
    *count = found;
    return Status();
  });
}

// What the kernels were compiled for.
constexpr int kOldestMajor = 8;

Status CheckCapability(int index) {
  int major = 0;
  COX_CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
  if (major >= kOldestMajor) return Status();
  return Status(COX_FAILED_PRECONDITION, "device " + std::to_string(index) +
                                             ": wanted compute capability " +
                                             std::to_string(kOldestMajor) + ".0 or newer, found " +
                                             std::to_string(major) + ".x");
}

// Lets all devices that can reach this one read and write the pool's memory, for copies.
Status ShareWithPeers(const CoxDevice& device) {
  int count = 0;
  COX_CHECK_CUDA(cudaGetDeviceCount(&count));
  for (int peer = 0; peer < count; ++peer) {
    int can = 0;
    if (peer != device.index) {
      COX_CHECK_CUDA(cudaDeviceCanAccessPeer(&can, peer, device.index));
    }
    if (can == 0) continue;
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    COX_CHECK_CUDA(cudaMemPoolSetAccess(device.pool, &access, 1));
  }
  return Status();
}

// A stream keeps at most this part of the device's memory; a worker uses some few.
constexpr size_t kMostKeptOf = 32;

int32_t OpenDevice(int32_t index, CoxDevice** device, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(CheckCapability(index));
    auto opened = std::make_unique<CoxDevice>();
    opened->index = index;
    size_t free = 0, total = 0;
    COX_CUDA_RETURN_IF_ERROR(Use(opened.get()));
    COX_CHECK_CUDA(cudaMemGetInfo(&free, &total));
    opened->most_kept = total / kMostKeptOf;
    int pools = 0;
    COX_CHECK_CUDA(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, index));
    if (pools == 0) {
      return Status(COX_FAILED_PRECONDITION,
                    "device " + std::to_string(index) + " has no memory pools");
    }
    COX_CHECK_CUDA(cudaDeviceGetDefaultMemPool(&opened->pool, index));
    uint64_t keep = UINT64_MAX;
    COX_CHECK_CUDA(cudaMemPoolSetAttribute(opened->pool, cudaMemPoolAttrReleaseThreshold, &keep));
    COX_CUDA_RETURN_IF_ERROR(ShareWithPeers(*opened));
    const cublasStatus_t made = cublasLtCreate(&opened->products);
    if (made != CUBLAS_STATUS_SUCCESS) {
      return Status(COX_FAILED_PRECONDITION,
                    std::string("cublasLtCreate: ") + cublasLtGetStatusString(made));
    }
    *device = opened.release();
    return Status();
  });
}

void CloseDevice(CoxDevice* device) {
  if (device == nullptr) return;
  // Of a device that is lost the library's memory is lost, too.
  if (Use(device).ok()) (void)cublasLtDestroy(device->products);
  delete device;
}

int32_t DeviceInfo(CoxDevice* device, CoxDeviceInfo* info, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(device));
    cudaDeviceProp properties;
    COX_CHECK_CUDA(cudaGetDeviceProperties(&properties, device->index));
    size_t free = 0, total = 0;
    COX_CHECK_CUDA(cudaMemGetInfo(&free, &total));
    // What the pool and the streams keep but nobody uses is free, too.
    uint64_t reserved = 0, used = 0;
    COX_CHECK_CUDA(
        cudaMemPoolGetAttribute(device->pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    COX_CHECK_CUDA(cudaMemPoolGetAttribute(device->pool, cudaMemPoolAttrUsedMemCurrent, &used));
    snprintf(info->name, sizeof(info->name), "%.127s", properties.name);
    info->memory_bytes = static_cast<int64_t>(total);
    if (reserved > used) free += reserved - used;
    const std::lock_guard<std::mutex> lock(device->mutex);
    for (CoxStream* stream : device->streams) free += stream->memory.kept_bytes();
    info->free_bytes = static_cast<int64_t>(free);
    return Status();
  });
}

// ---- memory

cudaStream_t StreamOf(CoxStream* stream) { return static_cast<cudaStream_t>(stream->queue.stream); }

// When freeing fails the device is lost, as the next call says.
void FreeKept(CoxStream* stream) {
  for (void* memory : stream->memory.TakeKept()) {
    (void)Check(cudaFreeAsync(memory, StreamOf(stream)), "cudaFreeAsync");
  }
}

// Frees what the device's streams keep, and what the pool keeps.
cudaError_t FreeAllKept(CoxDevice* device) {
  {
    const std::lock_guard<std::mutex> lock(device->mutex);
    for (CoxStream* stream : device->streams) FreeKept(stream);
  }
  const cudaError_t synchronized = cudaDeviceSynchronize();
  return synchronized != cudaSuccess ? synchronized : cudaMemPoolTrimTo(device->pool, 0);
}

int32_t Allocate(CoxDevice* device, size_t bytes, void** memory, CoxError* error) {
  return Guarded(error, [&] {
    *memory = nullptr;
    if (bytes == 0) return Status();
    COX_CUDA_RETURN_IF_ERROR(Use(device));
    cudaError_t result = cudaMalloc(memory, bytes);
    if (result == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      COX_CHECK_CUDA(FreeAllKept(device));
      result = cudaMalloc(memory, bytes);
    }
    COX_CUDA_RETURN_IF_ERROR(Check(result, "cudaMalloc"));
    // Other streams do not wait for the legacy stream, so the zeros must be there on return.
    result = cudaMemsetAsync(*memory, 0, bytes, cudaStreamLegacy);
    if (result == cudaSuccess) result = cudaStreamSynchronize(cudaStreamLegacy);
    if (result != cudaSuccess) {
      (void)cudaFree(*memory);
      *memory = nullptr;
    }
    return Check(result, "cudaMemsetAsync");
  });
}

// When freeing fails the device is lost, as the next call says.
void FreeMemory(CoxDevice* device, void* memory) {
  if (memory == nullptr || !Use(device).ok()) return;
  (void)Check(cudaFree(memory), "cudaFree");
}

int32_t AllocatePinned(CoxDevice* device, size_t bytes, void** memory, CoxError* error) {
  return Guarded(error, [&] {
    *memory = nullptr;
    if (bytes == 0) return Status();
    COX_CUDA_RETURN_IF_ERROR(Use(device));
    // Portable: a worker with several GPUs copies from it to all of them.
    COX_CHECK_CUDA(cudaHostAlloc(memory, bytes, cudaHostAllocPortable));
    return Status();
  });
}

void FreePinned(CoxDevice* device, void* memory) {
  if (memory == nullptr || !Use(device).ok()) return;
  (void)Check(cudaFreeHost(memory), "cudaFreeHost");
}

// ---- streams

int32_t CreateStream(CoxDevice* device, CoxStream** stream, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(device));
    auto made = std::make_unique<CoxStream>(device, device->most_kept);
    const std::lock_guard<std::mutex> lock(device->mutex);
    device->streams.insert(made.get());
    cudaStream_t native = nullptr;
    const cudaError_t created = cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking);
    if (created != cudaSuccess) device->streams.erase(made.get());
    COX_CHECK_CUDA(created);
    made->queue.stream = native;
    *stream = made.release();
    return Status();
  });
}

void DestroyStream(CoxStream* stream) {
  if (stream == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(stream->device->mutex);
    stream->device->streams.erase(stream);
  }
  if (Use(stream->device).ok()) {
    (void)Guarded(nullptr, [&] {
      const Status started = Flush(stream);
      FreeKept(stream);
      return started;
    });
    (void)Check(cudaStreamSynchronize(StreamOf(stream)), "cudaStreamSynchronize");
    (void)Check(cudaStreamDestroy(StreamOf(stream)), "cudaStreamDestroy");
  }
  delete stream;
}

int32_t TableAllocateOn(CoxStream* stream, size_t bytes, void** memory, CoxError* error) {
  return Guarded(error, [&] {
    *memory = nullptr;
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    const Status allocated = AllocateOn(stream, bytes, memory);
    if (allocated.code() != COX_RESOURCE_EXHAUSTED || stream->pending == nullptr) return allocated;
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));  // what was laid aside goes back
    return AllocateOn(stream, bytes, memory);
  });
}

void TableReleaseOn(CoxStream* stream, void* memory) {
  if (memory == nullptr || LayAside(stream, memory) || !Use(stream->device).ok()) return;
  ReleaseOn(stream, memory);
}

int32_t CopyAsync(CoxStream* stream, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                  CoxError* error) {
  return Guarded(error, [&] {
    if (bytes == 0) return Status();
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    COX_CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, kind, StreamOf(stream)));
    return Status();
  });
}

int32_t CopyToDevice(CoxStream* stream, void* device_memory, const void* host, size_t bytes,
                     CoxError* error) {
  return CopyAsync(stream, device_memory, host, bytes, cudaMemcpyHostToDevice, error);
}

int32_t CopyToHost(CoxStream* stream, void* host, const void* device_memory, size_t bytes,
                   CoxError* error) {
  return CopyAsync(stream, host, device_memory, bytes, cudaMemcpyDeviceToHost, error);
}

int32_t TableCopyOnDevice(CoxStream* stream, void* to, const void* from, size_t bytes,
                          CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    return CopyWithinDevice(stream, to, from, bytes);
  });
}

int32_t CopyFromDevice(CoxStream* stream, void* to, const void* from, size_t bytes,
                       CoxError* error) {
  // Addresses say which device they are on.
  return CopyAsync(stream, to, from, bytes, cudaMemcpyDefault, error);
}

int32_t TableFillZero(CoxStream* stream, void* device_memory, size_t bytes, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    return FillZero(stream, device_memory, bytes);
  });
}

struct Notification {
  void (*reached)(void* context, int32_t code);
  void* context;
};

void CUDART_CB Notify(cudaStream_t, cudaError_t error, void* data) {
  const std::unique_ptr<Notification> notification(static_cast<Notification*>(data));
  notification->reached(notification->context, error == cudaSuccess ? COX_OK : COX_DEVICE_LOST);
}

int32_t NotifyWhenReached(CoxStream* stream, void (*reached)(void* context, int32_t code),
                          void* context, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    auto notification = std::make_unique<Notification>(Notification{reached, context});
    // Not cudaLaunchHostFunc, which is never called once the device is lost: whoever waits would
    // wait for ever.
    COX_CHECK_CUDA(cudaStreamAddCallback(StreamOf(stream), Notify, notification.get(), 0));
    (void)notification.release();
    return Status();
  });
}

int32_t Synchronize(CoxStream* stream, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    COX_CHECK_CUDA(cudaStreamSynchronize(StreamOf(stream)));
    return Status();
  });
}

int32_t TableFlush(CoxStream* stream, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    return Flush(stream);
  });
}

// ---- events

int32_t CreateEvent(CoxDevice* device, CoxEvent** event, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(device));
    auto made = std::make_unique<CoxEvent>(CoxEvent{device, nullptr});
    COX_CHECK_CUDA(cudaEventCreateWithFlags(&made->event, cudaEventDisableTiming));
    *event = made.release();
    return Status();
  });
}

void DestroyEvent(CoxEvent* event) {
  if (event == nullptr) return;
  if (Use(event->device).ok()) (void)Check(cudaEventDestroy(event->event), "cudaEventDestroy");
  delete event;
}

int32_t Record(CoxStream* stream, CoxEvent* event, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    COX_CHECK_CUDA(cudaEventRecord(event->event, StreamOf(stream)));
    return Status();
  });
}

int32_t Wait(CoxStream* stream, CoxEvent* event, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    COX_CHECK_CUDA(cudaStreamWaitEvent(StreamOf(stream), event->event, 0));
    return Status();
  });
}

int32_t IsReached(CoxEvent* event) {
  if (!Use(event->device).ok()) return 1;
  const cudaError_t state = cudaEventQuery(event->event);
  if (state == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return 0;
  }
  (void)Check(state, "cudaEventQuery");
  return 1;
}

}  // namespace

Status Use(CoxDevice* device) { return Check(cudaSetDevice(device->index), "cudaSetDevice"); }

Status StatusOfLaunch() { return Check(cudaGetLastError(), "launch of a kernel"); }

Status AllocateOn(CoxStream* stream, size_t bytes, void** memory) {
  *memory = nullptr;
  if (bytes == 0) return Status();
  const size_t size = stream->memory.Rounded(bytes);
  *memory = stream->memory.Take(size);
  if (*memory != nullptr) return Status();
  cudaError_t result = cudaMallocAsync(memory, size, StreamOf(stream));
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    COX_CHECK_CUDA(FreeAllKept(stream->device));
    result = cudaMallocAsync(memory, size, StreamOf(stream));
  }
  if (result != cudaSuccess) *memory = nullptr;
  COX_CUDA_RETURN_IF_ERROR(Check(result, "cudaMallocAsync"));
  try {
    stream->memory.Lend(*memory, size);
  } catch (...) {
    (void)Check(cudaFreeAsync(*memory, StreamOf(stream)), "cudaFreeAsync");
    *memory = nullptr;
    throw;
  }
  return Status();
}

void ReleaseOn(CoxStream* stream, void* memory) {
  std::vector<void*> surplus;
  const bool kept = stream->memory.Keep(memory, &surplus);
  for (void* other : surplus) (void)Check(cudaFreeAsync(other, StreamOf(stream)), "cudaFreeAsync");
  if (kept) return;
  (void)Check(cudaFreeAsync(memory, StreamOf(stream)), "cudaFreeAsync");
}

Status FillZero(CoxStream* stream, void* memory, size_t bytes) {
  if (bytes == 0) return Status();
  COX_CHECK_CUDA(cudaMemsetAsync(memory, 0, bytes, StreamOf(stream)));
  return Status();
}

Status CopyOnDevice(CoxStream* stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return Status();
  COX_CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, StreamOf(stream)));
  return Status();
}

void FillDeviceTable(CoxDeviceApi* table) {
#define COX_TEXT_OF(x) #x
#define COX_TEXT(x) COX_TEXT_OF(x)
  table->name = "CUDA " COX_TEXT(__CUDACC_VER_MAJOR__) "." COX_TEXT(__CUDACC_VER_MINOR__);
  table->device_count = DeviceCount;
  table->open_device = OpenDevice;
  table->close_device = CloseDevice;
  table->device_info = DeviceInfo;
  table->allocate = Allocate;
  table->free_memory = FreeMemory;
  table->allocate_pinned = AllocatePinned;
  table->free_pinned = FreePinned;
  table->create_stream = CreateStream;
  table->destroy_stream = DestroyStream;
  table->allocate_on = TableAllocateOn;
  table->release_on = TableReleaseOn;
  table->copy_to_device = CopyToDevice;
  table->copy_to_host = CopyToHost;
  table->copy_on_device = TableCopyOnDevice;
  table->copy_from_device = CopyFromDevice;
  table->fill_zero = TableFillZero;
  table->notify = NotifyWhenReached;
  table->synchronize = Synchronize;
  table->flush = TableFlush;
  table->create_event = CreateEvent;
  table->destroy_event = DestroyEvent;
  table->record = Record;
  table->wait = Wait;
  table->is_reached = IsReached;
}

}  // namespace coxswain::cuda
