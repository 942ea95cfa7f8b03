#include "runtime/device/fake_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"

namespace coxswain::device {
namespace {

// Blocks of 256 bytes << class.
size_t ClassOf(size_t bytes) {
  size_t size_class = 0;
  while ((size_t{256} << size_class) < bytes) ++size_class;
  return size_class;
}

size_t BlockBytes(size_t bytes) { return size_t{256} << ClassOf(bytes); }

// All that there are. Thread-safe.
class Everywhere {
 public:
  void Add(const FakeMemory* memory, const char* begin, const char* end) {
    absl::MutexLock lock(&mu_);
    by_end_[end] = {begin, memory};
  }
  void Remove(const char* end) {
    absl::MutexLock lock(&mu_);
    by_end_.erase(end);
  }
  const FakeMemory* Find(const char* address) {
    absl::MutexLock lock(&mu_);
    const auto it = by_end_.upper_bound(address);
    COX_CHECK(it != by_end_.end() && it->second.first <= address,
              "an address that no fake device has given");
    return it->second.second;
  }

 private:
  absl::Mutex mu_;
  std::map<const char*, std::pair<const char*, const FakeMemory*>> by_end_ ABSL_GUARDED_BY(mu_);
};

Everywhere& AllMemory() {
  static auto* const all = new Everywhere;
  return *all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FakeMemory>> FakeMemory::Map(size_t bytes) {
  const auto failed = [](const char* call) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a fake device: ", call, ": ", std::strerror(errno)));
  };
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const inside = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (inside == MAP_FAILED) return failed("mmap");
  void* const outside = mmap(nullptr, bytes, PROT_NONE, kFlags, -1, 0);
  if (outside == MAP_FAILED) {
    const absl::Status status = failed("mmap");
    munmap(inside, bytes);
    return status;
  }
  return std::unique_ptr<FakeMemory>(
      new FakeMemory(static_cast<char*>(outside), static_cast<char*>(inside), bytes));
}

FakeMemory::FakeMemory(char* outside, char* inside, size_t bytes)
    : outside_(outside), inside_(inside), bytes_(bytes) {
  AllMemory().Add(this, outside_, outside_ + bytes_);
}

FakeMemory::~FakeMemory() {
  AllMemory().Remove(outside_ + bytes_);
  munmap(outside_, bytes_);
  munmap(inside_, bytes_);
}

void* FakeMemory::Allocate(size_t bytes) {
  const size_t size_class = ClassOf(bytes), block = BlockBytes(bytes);
  absl::MutexLock lock(&mu_);
  if (free_.size() <= size_class) free_.resize(size_class + 1);
  size_t offset = used_;
  if (auto& free = free_[size_class]; !free.empty()) {
    offset = free.back();
    free.pop_back();
  } else if (block > bytes_ - used_) {
    return nullptr;
  } else {
    used_ += block;
  }
  live_ += block;
  return outside_ + offset;
}

void FakeMemory::Free(void* memory, size_t bytes) {
  Spoil(memory, bytes);
  absl::MutexLock lock(&mu_);
  live_ -= BlockBytes(bytes);
  free_[ClassOf(bytes)].push_back(static_cast<size_t>(static_cast<char*>(memory) - outside_));
}

void* FakeMemory::InsideOfAny(const void* memory) {
  return AllMemory().Find(static_cast<const char*>(memory))->Inside(memory);
}

void FakeMemory::Spoil(void* memory, size_t bytes) const {
  std::memset(Inside(memory), 0xff, bytes);
}

size_t FakeMemory::live_bytes() const {
  absl::MutexLock lock(&mu_);
  return live_;
}

}  // namespace coxswain::device
