#include "ps_server/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/tensor/limits.h"

namespace coxswain::ps {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

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

absl::StatusOr<void*> AllocateZeroBytes(size_t count, size_t bytes_each) {
  count = std::max<size_t>(1, count);
  void* const zeros =
      count > MaxBufferBytes() / bytes_each ? nullptr : std::calloc(count, bytes_each);
  if (zeros != nullptr) return zeros;
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for ", count, " times ", bytes_each, " bytes"));
}

}  // namespace coxswain::ps
