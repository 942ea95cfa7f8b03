// Free blocks by size, of each thread and shared; a block; and buffers, which are handles on one.
#include "coxswain/tensor.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/logging.h"
#include "runtime/tensor/allocator_stats.h"
#include "runtime/tensor/limits.h"

namespace coxswain {
namespace {

// Size classes are 4 steps per power of two from 64 bytes to 256 MiB; larger blocks are not kept.
constexpr int kStepsPerDoubling = 4;
constexpr int kMinShift = 6;
constexpr int kMaxShift = 28;
constexpr int kClasses = (kMaxShift - kMinShift) * kStepsPerDoubling + 1;
// A thread keeps small blocks for itself, without a lock. The rest goes through the shared lists:
// the blocks of a frame are allocated on one thread and freed on another, where they would pile up
// while the first takes ever new, cold memory from the system.
constexpr size_t kMaxThreadBlock = size_t{64} << 10;
constexpr size_t kMaxThreadBytes = size_t{1} << 20;
constexpr int64_t kMaxSharedBytes = int64_t{512} << 20;

std::atomic<int64_t> g_live_bytes{0};
std::atomic<int64_t> g_system_allocations{0};

size_t MachineBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::numeric_limits<size_t>::max() / 2;
  return static_cast<size_t>(pages) * static_cast<size_t>(page);
}

std::atomic<size_t>& MaxBytes() {
  static std::atomic<size_t> bytes{MachineBytes()};
  return bytes;
}

size_t ClassBytes(int index) {
  const size_t base = size_t{1} << (kMinShift + index / kStepsPerDoubling);
  const size_t bytes = base + base / kStepsPerDoubling * (index % kStepsPerDoubling);
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// The smallest class that holds `bytes`, or -1.
int ClassOf(size_t bytes) {
  if (bytes > (size_t{1} << kMaxShift)) return -1;
  int shift = kMinShift;
  while ((size_t{2} << shift) < bytes) ++shift;
  int index = (shift - kMinShift) * kStepsPerDoubling;
  while (ClassBytes(index) < bytes) ++index;
  return index;
}

// The free blocks of one class that any thread may take.
struct alignas(64) SharedList {
  absl::Mutex mu;
  std::vector<void*> free ABSL_GUARDED_BY(mu);
};

std::atomic<int64_t> g_shared_bytes{0};

// Never destroyed: the last handles may go after main.
SharedList& Shared(int size_class) {
  static auto* const lists = new std::array<SharedList, kClasses>;
  return (*lists)[size_class];
}

void* TakeShared(int size_class) {
  SharedList& list = Shared(size_class);
  absl::MutexLock lock(&list.mu);
  if (list.free.empty()) return nullptr;
  void* p = list.free.back();
  list.free.pop_back();
  g_shared_bytes.fetch_sub(static_cast<int64_t>(ClassBytes(size_class)), std::memory_order_relaxed);
  return p;
}

void GiveShared(void* p, int size_class) {
  const int64_t bytes = static_cast<int64_t>(ClassBytes(size_class));
  if (g_shared_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes > kMaxSharedBytes) {
    g_shared_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    std::free(p);
    return;
  }
  SharedList& list = Shared(size_class);
  absl::MutexLock lock(&list.mu);
  list.free.push_back(p);
}

struct ThreadCache {
  std::array<std::vector<void*>, kClasses> free;
  size_t bytes = 0;

  ~ThreadCache();
};

// A thread's cache may be gone while late handles are still released on that thread.
thread_local bool t_cache_gone = false;
thread_local ThreadCache t_cache;

ThreadCache::~ThreadCache() {
  t_cache_gone = true;
  for (int size_class = 0; size_class < kClasses; ++size_class) {
    for (void* p : free[size_class]) GiveShared(p, size_class);
  }
}

// `bytes`: of the block, its class's if it has one. Throws AllocationError.
void* TakeBlock(int size_class, size_t bytes) {
  if (size_class >= 0) {
    if (bytes <= kMaxThreadBlock && !t_cache_gone) {
      auto& list = t_cache.free[size_class];
      if (!list.empty()) {
        void* p = list.back();
        list.pop_back();
        t_cache.bytes -= bytes;
        return p;
      }
    }
    if (void* p = TakeShared(size_class); p != nullptr) return p;
  }
  g_system_allocations.fetch_add(1, std::memory_order_relaxed);
  void* p = std::aligned_alloc(kBufferAlignment, bytes);
  if (p == nullptr) throw AllocationError(absl::StrCat("no memory for ", bytes, " bytes"));
  return p;
}

void GiveBlock(void* p, int size_class, size_t bytes) {
  if (size_class < 0) {
    std::free(p);
  } else if (bytes <= kMaxThreadBlock && !t_cache_gone &&
             t_cache.bytes + bytes <= kMaxThreadBytes) {
    t_cache.free[size_class].push_back(p);
    t_cache.bytes += bytes;
  } else {
    GiveShared(p, size_class);
  }
}

size_t RoundUp(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

struct Buffer::Block {
  std::atomic<int64_t> refs{1};
  Device device;
  int size_class = -1;
  size_t bytes = 0;  // of the whole allocation, header included; 0 for wrapped memory
  std::function<void()> release;

  void Unref() {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (bytes == 0) {
      release();
      delete this;
      return;
    }
    const int cls = size_class;
    const size_t total = bytes;
    g_live_bytes.fetch_sub(static_cast<int64_t>(total), std::memory_order_relaxed);
    this->~Block();
    GiveBlock(this, cls, total);
  }
};

Buffer::Buffer(const Buffer& other) : block_(other.block_), data_(other.data_), size_(other.size_) {
  if (block_ != nullptr) block_->refs.fetch_add(1, std::memory_order_relaxed);
}

Buffer::Buffer(Buffer&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer other) noexcept {
  std::swap(block_, other.block_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (block_ != nullptr) block_->Unref();
}

Buffer Buffer::Allocate(size_t bytes) {
  constexpr size_t kHeader =
      (sizeof(Block) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  if (bytes > MaxBufferBytes()) {
    throw AllocationError(
        absl::StrCat("no memory for ", bytes, " bytes; wanted at most ", MaxBufferBytes()));
  }
  const int size_class = ClassOf(bytes + kHeader);
  const size_t total = size_class >= 0 ? ClassBytes(size_class) : RoundUp(bytes + kHeader);
  char* memory = static_cast<char*>(TakeBlock(size_class, total));
  Block* block = new (memory) Block;
  block->size_class = size_class;
  block->bytes = total;
  g_live_bytes.fetch_add(static_cast<int64_t>(total), std::memory_order_relaxed);
  return Buffer(block, memory + kHeader, bytes);
}

Buffer Buffer::Wrap(void* data, size_t bytes, Device device, std::function<void()> release) {
  Block* block = new Block;
  block->device = device;
  block->release = std::move(release);
  return Buffer(block, data, bytes);
}

Buffer Buffer::Slice(size_t offset, size_t bytes) const {
  COX_CHECK(offset <= size_ && bytes <= size_ - offset, "slice outside the buffer");
  Buffer slice(*this);
  slice.data_ = static_cast<char*>(data_) + offset;
  slice.size_ = bytes;
  return slice;
}

Device Buffer::device() const { return block_ == nullptr ? Device{} : block_->device; }

bool Buffer::Unique() const {
  return block_ != nullptr && block_->refs.load(std::memory_order_acquire) == 1;
}

void SetMaxBufferBytes(size_t bytes) {
  // Room for the header and for rounding up.
  MaxBytes() = std::min(bytes, std::numeric_limits<size_t>::max() / 2);
}

size_t MaxBufferBytes() { return MaxBytes().load(std::memory_order_relaxed); }

AllocatorStats GetAllocatorStats() {
  return {g_live_bytes.load(std::memory_order_relaxed),
          g_system_allocations.load(std::memory_order_relaxed)};
}

}  // namespace coxswain
