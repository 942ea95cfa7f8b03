// A GPU that takes no time, for machines without one: what is left of a step is what the host does
// for it, apart from the calls of CUDA. It is a plugin that computes nothing:
//
//   COXSWAIN_CUDA_PLUGIN=.../libcoxswain_null_gpu.so build/release/bin/coxswain-bench gpu ...
//
// Its memory is on the host and nothing is written there; what is copied to the host is zero. So
// steps learn nothing, and no error is found. How often each function was called is written to
// stderr when the program ends.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/device/device_api.h"

namespace {

struct Counter {
  const char* what;
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> bytes{0};
};

Counter allocations{"allocations on a stream"}, to_device{"copies to the device"},
    to_host{"copies to the host"}, on_device{"copies on the device"}, zeros{"memory set to zero"},
    notifications{"notifications"}, waits{"waits for another stream"}, ops{"ops"};

struct PrintCounters {
  ~PrintCounters() {
    for (const Counter* c :
         {&allocations, &to_device, &to_host, &on_device, &zeros, &notifications, &waits, &ops}) {
      std::fprintf(stderr, "null GPU: %lld %s", static_cast<long long>(c->calls), c->what);
      if (c->bytes > 0) std::fprintf(stderr, ", %lld MB", static_cast<long long>(c->bytes >> 20));
      std::fprintf(stderr, "\n");
    }
  }
} print_counters;

void Count(Counter* counter, size_t bytes = 0) {
  counter->calls.fetch_add(1, std::memory_order_relaxed);
  counter->bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

// Blocks by powers of two, which are kept for the next. Pages that nobody writes take no memory.
class Memory {
 public:
  void* Take(size_t bytes) {
    const size_t size = std::max(std::bit_ceil(bytes), kLeast);
    const std::lock_guard<std::mutex> lock(mu_);
    std::vector<void*>& free = free_[std::countr_zero(size)];
    if (free.empty()) {
      void* const made = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (made == MAP_FAILED) return nullptr;
      sizes_[made] = std::countr_zero(size);
      return made;
    }
    void* const block = free.back();
    free.pop_back();
    return block;
  }

  void Give(void* block) {
    if (block == nullptr) return;
    const std::lock_guard<std::mutex> lock(mu_);
    free_[sizes_.at(block)].push_back(block);
  }

 private:
  static constexpr size_t kLeast = 4096;
  std::mutex mu_;
  std::vector<void*> free_[64];
  std::unordered_map<void*, int> sizes_;
};

// Never destroyed: other statics may still give blocks back.
Memory& DeviceMemory() {
  static auto* const memory = new Memory;
  return *memory;
}
Memory& PinnedMemory() {
  static auto* const memory = new Memory;
  return *memory;
}

int32_t TakeFrom(Memory* memory, size_t bytes, void** block, CoxError* error) {
  *block = memory->Take(bytes);
  if (*block != nullptr) return COX_OK;
  std::snprintf(error->message, sizeof(error->message), "no room for %zu bytes", bytes);
  return COX_RESOURCE_EXHAUSTED;
}

// A thread that says at once that a stream has got somewhere.
class Notifier {
 public:
  using Reached = void (*)(void* context, int32_t code);

  Notifier() {
    std::thread([this] { Run(); }).detach();
  }

  void Add(Reached reached, void* context) {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      queue_.emplace_back(reached, context);
    }
    more_.notify_one();
  }

 private:
  [[noreturn]] void Run() {
    std::unique_lock<std::mutex> lock(mu_);
    while (true) {
      more_.wait(lock, [this] { return !queue_.empty(); });
      const auto [reached, context] = queue_.front();
      queue_.pop_front();
      lock.unlock();
      reached(context, COX_OK);
      lock.lock();
    }
  }

  std::mutex mu_;
  std::condition_variable more_;
  std::deque<std::pair<Reached, void*>> queue_;
};

// Devices, streams, events and ops are nothing but addresses.
template <typename T>
int32_t Make(T** made) {
  *made = reinterpret_cast<T*>(new char);
  return COX_OK;
}
template <typename T>
void Drop(T* made) {
  delete reinterpret_cast<char*>(made);
}

CoxDeviceApi MakeApi() {
  CoxDeviceApi api = {};
  api.version = COX_DEVICE_API_VERSION;
  api.size = sizeof(api);
  api.name = "null";
  api.device_count = [](int32_t* count, CoxError*) -> int32_t {
    *count = 1;
    return COX_OK;
  };
  api.open_device = [](int32_t, CoxDevice** device, CoxError*) { return Make(device); };
  api.close_device = [](CoxDevice* device) { Drop(device); };
  api.device_info = [](CoxDevice*, CoxDeviceInfo* info, CoxError*) -> int32_t {
    std::strcpy(info->name, "a null GPU, which computes nothing: only the host's part is measured");
    info->memory_bytes = info->free_bytes = int64_t{128} << 30;
    return COX_OK;
  };
  api.allocate = [](CoxDevice*, size_t bytes, void** memory, CoxError* error) {
    return TakeFrom(&DeviceMemory(), bytes, memory, error);
  };
  api.free_memory = [](CoxDevice*, void* memory) { DeviceMemory().Give(memory); };
  api.allocate_pinned = [](CoxDevice*, size_t bytes, void** memory, CoxError* error) {
    return TakeFrom(&PinnedMemory(), bytes, memory, error);
  };
  api.free_pinned = [](CoxDevice*, void* memory) { PinnedMemory().Give(memory); };
  api.create_stream = [](CoxDevice*, CoxStream** stream, CoxError*) { return Make(stream); };
  api.destroy_stream = [](CoxStream* stream) { Drop(stream); };
  api.allocate_on = [](CoxStream*, size_t bytes, void** memory, CoxError* error) {
    Count(&allocations, bytes);
    return TakeFrom(&DeviceMemory(), bytes, memory, error);
  };
  api.release_on = [](CoxStream*, void* memory) { DeviceMemory().Give(memory); };
  api.copy_to_device = [](CoxStream*, void*, const void*, size_t bytes, CoxError*) -> int32_t {
    Count(&to_device, bytes);
    return COX_OK;
  };
  api.copy_to_host = [](CoxStream*, void* host, const void*, size_t bytes, CoxError*) -> int32_t {
    Count(&to_host, bytes);
    std::memset(host, 0, bytes);
    return COX_OK;
  };
  api.copy_on_device = [](CoxStream*, void*, const void*, size_t bytes, CoxError*) -> int32_t {
    Count(&on_device, bytes);
    return COX_OK;
  };
  api.copy_from_device = api.copy_on_device;
  api.fill_zero = [](CoxStream*, void*, size_t bytes, CoxError*) -> int32_t {
    Count(&zeros, bytes);
    return COX_OK;
  };
  api.notify = [](CoxStream*, Notifier::Reached reached, void* context, CoxError*) -> int32_t {
    static auto* const notifier = new Notifier;
    Count(&notifications);
    notifier->Add(reached, context);
    return COX_OK;
  };
  api.synchronize = [](CoxStream*, CoxError*) -> int32_t { return COX_OK; };
  api.flush = api.synchronize;
  api.create_event = [](CoxDevice*, CoxEvent** event, CoxError*) { return Make(event); };
  api.destroy_event = [](CoxEvent* event) { Drop(event); };
  api.record = [](CoxStream*, CoxEvent*, CoxError*) -> int32_t { return COX_OK; };
  api.is_reached = [](CoxEvent*) { return int32_t{1}; };
  api.wait = [](CoxStream*, CoxEvent*, CoxError*) -> int32_t {
    Count(&waits);
    return COX_OK;
  };
  api.create_op = [](CoxDevice*, const CoxNode*, CoxOp** op, CoxError*) { return Make(op); };
  api.destroy_op = [](CoxOp* op) { Drop(op); };
  api.run_op = [](CoxOp*, CoxStream*, const CoxRun*, CoxError*) -> int32_t {
    Count(&ops);
    return COX_OK;
  };
  return api;
}

}  // namespace

extern "C" const CoxDeviceApi* coxswain_device_api(void) {
  static const CoxDeviceApi api = MakeApi();
  return &api;
}
