// The device of the emulated build: malloc, memcpy and loops.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "kernels/cuda/device.h"

namespace coxswain::cuda {
namespace {

// Calls what it is given, in order, on a thread of its own: a caller may hold locks that the
// called function takes.
class Notifier {
 public:
  Notifier() : thread_([this] { Loop(); }) {}
  ~Notifier() {
    Post(nullptr);
    thread_.join();
  }

  // What is called must not call the table: a GPU's driver would wait for itself.
  static void CheckNotNotifying(const char* function) {
    if (!notifying) return;
    std::fprintf(stderr, "%s: a notification calls the plugin\n", function);
    std::abort();
  }

  // An empty function ends the loop.
  void Post(std::function<void()> call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(std::move(call));
    posted_.notify_one();
  }

 private:
  void Loop() {
    while (true) {
      std::function<void()> call;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        posted_.wait(lock, [this] { return !calls_.empty(); });
        call = std::move(calls_.front());
        calls_.pop_front();
      }
      if (!call) return;
      notifying = true;
      call();
      notifying = false;
    }
  }

  static thread_local bool notifying;

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> calls_;
  std::thread thread_;
};

thread_local bool Notifier::notifying = false;

constexpr size_t kMemoryBytes = size_t{16} << 30;

// What the table's handles of devices and events stand for.
struct HostDevice {
  Notifier notifier;
};
struct HostEvent {};

HostDevice* Of(CoxDevice* device) { return reinterpret_cast<HostDevice*>(device); }
HostEvent* Of(CoxEvent* event) { return reinterpret_cast<HostEvent*>(event); }

// What malloc gives suits every element, and the sanitizer sees its exact size.
Status AllocateHost(size_t bytes, int fill, void** memory) {
  *memory = nullptr;
  if (bytes == 0) return Status();
  if (bytes > kMemoryBytes || (*memory = std::malloc(bytes)) == nullptr) {
    return Status(COX_RESOURCE_EXHAUSTED, "no " + std::to_string(bytes) + " bytes of memory");
  }
  std::memset(*memory, fill, bytes);
  return Status();
}

int32_t DeviceCount(int32_t* count, CoxError*) {
  *count = 1;
  return COX_OK;
}

int32_t OpenDevice(int32_t index, CoxDevice** device, CoxError* error) {
  return Guarded(error, [&] {
    if (index != 0) {
      return Status(COX_FAILED_PRECONDITION, "there is no device " + std::to_string(index));
    }
    *device = reinterpret_cast<CoxDevice*>(std::make_unique<HostDevice>().release());
    return Status();
  });
}

void CloseDevice(CoxDevice* device) {
  Notifier::CheckNotNotifying("close_device");
  delete Of(device);
}

int32_t DeviceInfo(CoxDevice*, CoxDeviceInfo* info, CoxError*) {
  *info = {"emulated GPU", int64_t{kMemoryBytes}, int64_t{kMemoryBytes}};
  return COX_OK;
}

int32_t Allocate(CoxDevice*, size_t bytes, void** memory, CoxError* error) {
  return Guarded(error, [&] { return AllocateHost(bytes, 0, memory); });
}

void FreeMemory(CoxDevice*, void* memory) {
  Notifier::CheckNotNotifying("free_memory");
  std::free(memory);
}

int32_t CreateStream(CoxDevice* device, CoxStream** stream, CoxError* error) {
  return Guarded(error, [&] {
    *stream = std::make_unique<CoxStream>(device, 0).release();
    return Status();
  });
}

void DestroyStream(CoxStream* stream) {
  Notifier::CheckNotNotifying("destroy_stream");
  if (stream != nullptr) (void)Guarded(nullptr, [&] { return Flush(stream); });
  delete stream;
}

int32_t TableAllocateOn(CoxStream* stream, size_t bytes, void** memory, CoxError* error) {
  return Guarded(error, [&] { return AllocateOn(stream, bytes, memory); });
}

void TableReleaseOn(CoxStream* stream, void* memory) {
  Notifier::CheckNotNotifying("release_on");
  if (!LayAside(stream, memory)) ReleaseOn(stream, memory);
}

int32_t Copy(CoxStream* stream, void* to, const void* from, size_t bytes, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    return CopyOnDevice(stream, to, from, bytes);
  });
}

int32_t TableCopyOnDevice(CoxStream* stream, void* to, const void* from, size_t bytes,
                          CoxError* error) {
  return Guarded(error, [&] { return CopyWithinDevice(stream, to, from, bytes); });
}

int32_t TableFillZero(CoxStream* stream, void* memory, size_t bytes, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    return FillZero(stream, memory, bytes);
  });
}

int32_t NotifyWhenReached(CoxStream* stream, void (*reached)(void* context, int32_t code),
                          void* context, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    Of(stream->device)->notifier.Post([reached, context] { reached(context, COX_OK); });
    return Status();
  });
}

int32_t Synchronize(CoxStream* stream, CoxError* error) {
  return Guarded(error, [&] { return Flush(stream); });
}

int32_t CreateEvent(CoxDevice*, CoxEvent** event, CoxError* error) {
  return Guarded(error, [&] {
    *event = reinterpret_cast<CoxEvent*>(std::make_unique<HostEvent>().release());
    return Status();
  });
}

void DestroyEvent(CoxEvent* event) { delete Of(event); }

// What is enqueued is done at once, so that whatever an event waits for has happened.
int32_t Pass(CoxStream* stream, CoxEvent*, CoxError* error) {
  return Guarded(error, [&] { return Flush(stream); });
}

}  // namespace

Status Use(CoxDevice*) { return Status(); }

Status AllocateOn(CoxStream*, size_t bytes, void** memory) {
  return AllocateHost(bytes, 0xff, memory);
}

void ReleaseOn(CoxStream*, void* memory) { std::free(memory); }

Status FillZero(CoxStream*, void* memory, size_t bytes) {
  if (bytes > 0) std::memset(memory, 0, bytes);
  return Status();
}

Status CopyOnDevice(CoxStream*, void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return Status();
}

void FillDeviceTable(CoxDeviceApi* table) {
  table->name = "emulated CUDA";
  table->device_count = DeviceCount;
  table->open_device = OpenDevice;
  table->close_device = CloseDevice;
  table->device_info = DeviceInfo;
  table->allocate = Allocate;
  table->free_memory = FreeMemory;
  table->allocate_pinned = Allocate;
  table->free_pinned = FreeMemory;
  table->create_stream = CreateStream;
  table->destroy_stream = DestroyStream;
  table->allocate_on = TableAllocateOn;
  table->release_on = TableReleaseOn;
  table->copy_to_device = Copy;
  table->copy_to_host = Copy;
  table->copy_on_device = TableCopyOnDevice;
  table->copy_from_device = Copy;
  table->fill_zero = TableFillZero;
  table->notify = NotifyWhenReached;
  table->synchronize = Synchronize;
  table->flush = Synchronize;
  table->create_event = CreateEvent;
  table->destroy_event = DestroyEvent;
  table->record = Pass;
  table->wait = Pass;
  table->is_reached = [](CoxEvent*) { return int32_t{1}; };
}

}  // namespace coxswain::cuda
