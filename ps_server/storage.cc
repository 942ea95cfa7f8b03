#include "ps_server/storage.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace coxswain::ps {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

absl::StatusOr<Buffer> AllocateStorage(size_t bytes) {
  if (bytes < kHugePage) {
    Buffer buffer = Buffer::Allocate(bytes);
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

}  // namespace coxswain::ps
