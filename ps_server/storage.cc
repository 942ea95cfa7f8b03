#include "ps_server/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/status.h"
#include "runtime/cluster/free_memory.h"
#include "runtime/tensor/limits.h"

namespace coxswain::ps {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = size_t{4} << 10;  // or more
// Taken between two looks at what is free.
constexpr size_t kStride = size_t{256} << 20;
constexpr size_t kSmallBytes = size_t{64} << 20;
// What the rest of the process goes on to need.
constexpr double kSpareBytes = 32 << 20;

}  // namespace

absl::StatusOr<Buffer> AllocateStorage(size_t bytes) {
  if (bytes < kHugePage) {
    Buffer buffer;
    RETURN_IF_ERROR(CatchAllocationErrors([&] {
      buffer = Buffer::Allocate(bytes);
      return absl::OkStatus();
    }));
    std::memset(buffer.data(), 0, bytes);
    return buffer;
  }
  const size_t length = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  // One huge page more than needed, to find an aligned start; the rest goes back at once.
  void* mapped =
      mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes: ", std::strerror(errno)));
  }
  char* begin = static_cast<char*>(mapped);
  const size_t lead = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  char* start = begin + lead;
  if (lead > 0) munmap(begin, lead);
  if (lead < kHugePage) munmap(start + length, kHugePage - lead);
  madvise(start, length, MADV_HUGEPAGE);  // advice: without it all works, only slower
  return Buffer::Wrap(start, bytes, Device{}, [start, length] { munmap(start, length); });
}

absl::Status CheckRoom(size_t bytes, size_t whole) {
  if (whole < kSmallBytes) return absl::OkStatus();
  const cluster::FreeMemory free = cluster::FindFreeMemory();
  if (free.limit == 0 || static_cast<double>(bytes) + kSpareBytes <= free.bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "wanted ", BytesText(static_cast<int64_t>(bytes)), " of memory, free are ", free.ToString()));
}

absl::StatusOr<Buffer> AllocateFilledStorage(size_t bytes) {
  RETURN_IF_ERROR(CheckRoom(bytes, bytes));
  ASSIGN_OR_RETURN(Buffer buffer, AllocateStorage(bytes));
  // A page is had with its first write.
  volatile char* const begin = static_cast<char*>(buffer.data());
  for (size_t at = 0; at < bytes; at += kPage) {
    if (at > 0 && at % kStride == 0) RETURN_IF_ERROR(CheckRoom(bytes - at, bytes));
    begin[at] = 0;
  }
  return buffer;
}

absl::StatusOr<void*> AllocateZeroBytes(size_t count, size_t bytes_each) {
  count = std::max<size_t>(1, count);
  void* const zeros =
      count > MaxBufferBytes() / bytes_each ? nullptr : std::calloc(count, bytes_each);
  if (zeros != nullptr) return zeros;
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for ", count, " times ", bytes_each, " bytes"));
}

}  // namespace coxswain::ps
