#include "runtime/net/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::net {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kDirectionBytes = (sizeof(ShmDirection) + kPage - 1) / kPage * kPage;
constexpr size_t kControlBytes = 2 * kDirectionBytes;
constexpr size_t kSegmentBytes = kControlBytes + 2 * kShmArenaBytes;
// The file must not shrink under the end that maps it: touching what is gone kills a process.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status Failed(const char* what) {
  return absl::UnavailableError(
      absl::StrCat("cannot share memory: ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::MapFile(int file) {
  void* base =
      mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (base == MAP_FAILED) return Failed("mmap");
  madvise(base, kSegmentBytes, MADV_DONTDUMP);
  return std::shared_ptr<ShmSegment>(new ShmSegment(static_cast<char*>(base)));
}

absl::StatusOr<ShmSegment::Created> ShmSegment::Create() {
  Created created;
  created.file = UniqueFd(memfd_create("coxswain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!created.file.valid()) return Failed("memfd_create");
  if (ftruncate(created.file.get(), static_cast<off_t>(kSegmentBytes)) != 0) {
    return Failed("ftruncate");
  }
  if (fcntl(created.file.get(), F_ADD_SEALS, kSeals) != 0) return Failed("sealing");
  ASSIGN_OR_RETURN(created.segment, MapFile(created.file.get()));
  return created;
}

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::Map(const UniqueFd& file) {
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return Failed("fstat");
  if (info.st_size != static_cast<off_t>(kSegmentBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory: wanted ", kSegmentBytes, " bytes, found ", info.st_size));
  }
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError("shared memory: the file may shrink");
  }
  return MapFile(file.get());
}

ShmSegment::~ShmSegment() { munmap(base_, kSegmentBytes); }

ShmDirection& ShmSegment::direction(int index) const {
  // A new file is all zeros, which is what the counters start from.
  return *reinterpret_cast<ShmDirection*>(base_ + static_cast<size_t>(index) * kDirectionBytes);
}

char* ShmSegment::arena(int index) const {
  return base_ + kControlBytes + static_cast<size_t>(index) * kShmArenaBytes;
}

void ShmSegment::Discard(int index, size_t offset, size_t bytes) const {
  madvise(arena(index) + offset, bytes / kPage * kPage, MADV_REMOVE);
}

}  // namespace coxswain::net
