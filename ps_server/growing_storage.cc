#include "ps_server/growing_storage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/storage.h"

namespace coxswain::ps {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallStep = size_t{64} << 10;  // while it is below a huge page

// Three quarters of the 47 bits that a process has.
constexpr size_t kAllAddresses = size_t{96} << 40;
std::atomic<size_t> reserved_addresses{0};

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

absl::Status Exhausted(size_t bytes, absl::string_view why) {
  return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes: ", why));
}

}  // namespace

absl::StatusOr<GrowingStorage> GrowingStorage::Create(size_t max_bytes) {
  const size_t length = RoundUp(std::max<size_t>(max_bytes, 1), kHugePage);
  // One huge page more than needed, to find an aligned start; the rest goes back at once.
  void* mapped = mmap(nullptr, length + kHugePage, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return Exhausted(max_bytes, std::strerror(errno));
  char* begin = static_cast<char*>(mapped);
  const size_t lead = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  char* start = begin + lead;
  if (lead > 0) munmap(begin, lead);
  if (lead < kHugePage) munmap(start + length, kHugePage - lead);
  GrowingStorage storage;
  reserved_addresses += length;
  storage.range_ = Buffer::Wrap(start, length, Device{}, [start, length] {
    munmap(start, length);
    reserved_addresses -= length;
  });
  storage.max_bytes_ = length;
  return storage;
}

absl::StatusOr<GrowingStorage> GrowingStorage::CreateInFile(size_t max_bytes, TableFile file) {
  ASSIGN_OR_RETURN(GrowingStorage storage, Create(max_bytes));
  storage.file_ = std::move(file);
  return storage;
}

absl::Status GrowingStorage::Grow(size_t bytes) {
  if (bytes <= bytes_) return absl::OkStatus();
  if (bytes > max_bytes_) {
    return Exhausted(bytes, absl::StrCat("at most ", max_bytes_,
                                         " are foreseen for one shard: use more of them"));
  }
  // An eighth more each time: few calls, and small neighbours stay small.
  const auto rounded = [this](size_t size) {
    return std::min(RoundUp(size, size < kHugePage ? kSmallStep : kHugePage), max_bytes_);
  };
  const size_t next = rounded(std::max(bytes, bytes_ + bytes_ / 8));
  if (MakeUsable(next).ok()) return absl::OkStatus();
  return MakeUsable(rounded(bytes));  // some of the last that there is
}

absl::Status GrowingStorage::MakeUsable(size_t end) {
  char* const begin = data() + bytes_;
  const size_t more = end - bytes_;
  if (file_.valid()) {
    RETURN_IF_ERROR(file_.Map(bytes_, end, begin));
    bytes_ = end;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckRoom(more, end));
  if (mprotect(begin, more, PROT_READ | PROT_WRITE) != 0) {
    return Exhausted(end, std::strerror(errno));
  }
  // Advice: without it all works, only slower.
  if (end >= kHugePage) madvise(begin, more, MADV_HUGEPAGE);
  bytes_ = end;
  return absl::OkStatus();
}

size_t AddressesLeft() {
  const size_t reserved = reserved_addresses;
  return reserved < kAllAddresses ? kAllAddresses - reserved : 0;
}

size_t PhysicalMemoryBytes() {
  const auto pages = static_cast<size_t>(std::max<long>(1, sysconf(_SC_PHYS_PAGES)));
  return pages * static_cast<size_t>(std::max<long>(4096, sysconf(_SC_PAGESIZE)));
}

void ReleasePages(void* data, size_t bytes) {
  const size_t page = static_cast<size_t>(std::max<long>(4096, sysconf(_SC_PAGESIZE)));
  const auto begin = RoundUp(reinterpret_cast<uintptr_t>(data), page);
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace coxswain::ps
