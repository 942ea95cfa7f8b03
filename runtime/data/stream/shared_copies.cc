// Locks of copies; making room for another one; opening a copy, which is written first if it does
// not exist.
#include "runtime/data/stream/shared_copies.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/stream/cache_directory.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/env/system_error.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

constexpr char kPart[] = ".part";
constexpr absl::string_view kKinds[] = {".unpacked", ".groups"};
constexpr absl::Duration kPoll = absl::Milliseconds(20), kNoProgress = absl::Minutes(5);

// Whether the descriptor's file is the one that the path leads to.
bool IsAt(int fd, const std::string& path) {
  struct stat open {
  }, there{};
  return fstat(fd, &open) == 0 && lstat(path.c_str(), &there) == 0 && open.st_ino == there.st_ino &&
         open.st_dev == there.st_dev;
}

// If the file system has no locks, all files count as free.
bool Lock(int fd, int how) { return flock(fd, how | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

// Removes a copy that nobody reads, or a part that nobody writes.
bool RemoveUnused(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool removed = Lock(fd, LOCK_EX) && IsAt(fd, path) && unlink(path.c_str()) == 0;
  close(fd);
  return removed;
}

// Creates and locks the file `part`. Errors: Unavailable when another process holds it and makes no
// progress.
absl::StatusOr<int> LockPart(const std::string& part) {
  struct stat last {};
  absl::Duration waited;  // since it grew, or was touched
  while (true) {
    const int fd = open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return env::SystemError(errno, "make", part);
    if (Lock(fd, LOCK_EX)) {
      if (IsAt(fd, part)) return fd;
      close(fd);  // its writer has just finished
      continue;
    }
    struct stat found {};
    if (fstat(fd, &found) == 0 &&
        (found.st_size != last.st_size || found.st_mtim.tv_sec != last.st_mtim.tv_sec ||
         found.st_mtim.tv_nsec != last.st_mtim.tv_nsec)) {
      last = found;
      waited = absl::ZeroDuration();
    }
    close(fd);
    if (waited > kNoProgress) {
      return absl::UnavailableError(absl::StrCat("another process writes ", part, " and got no ",
                                                 "further in ", absl::FormatDuration(kNoProgress)));
    }
    absl::SleepFor(kPoll);
    waited += kPoll;
  }
}

bool IsCopy(const std::string& path) {
  return std::any_of(std::begin(kKinds), std::end(kKinds),
                     [&](absl::string_view kind) { return absl::EndsWith(path, kind); });
}

bool IsPart(const std::string& path) {
  return absl::EndsWith(path, kPart) && IsCopy(path.substr(0, path.size() + 1 - sizeof(kPart)));
}

}  // namespace

std::string CopiesDirectory(const proto::StreamOptions& options) {
  const std::string cache = CacheDirectory(options);
  return cache.empty() ? cache : cache + "/unpacked";
}

void ShowProgress(int file) { futimens(file, nullptr); }

absl::Status WriteAll(int file, const void* data, size_t bytes, const std::string& path) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(file, p, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return env::SystemError(errno, "write", path);
    p += written;
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

SharedCopy::~SharedCopy() { close(lock_); }

SharedCopies::SharedCopies(const proto::StreamOptions& options)
    : directory_(CopiesDirectory(options)),
      most_bytes_(options.cache_bytes() > 0 ? options.cache_bytes() : kDefaultCacheBytes) {}

absl::StatusOr<std::shared_ptr<const SharedCopy>> SharedCopies::Open(const Wanted& wanted) const {
  RETURN_IF_ERROR(Annotate(MakePrivateDirectory(directory_), wanted.of));
  // Another process may remove it between the two, to make room.
  for (int tries = 0; tries < 3; ++tries) {
    if (auto copy = OpenExisting(wanted); copy != nullptr) {
      MarkUsed(PathOf(wanted.name));
      return copy;
    }
    RETURN_IF_ERROR(Annotate(Make(wanted), absl::StrCat(wanted.of, ": ", wanted.doing)));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      wanted.of, ": its copy in ", directory_, " is removed by others as soon as it is written: ",
      "wanted more than ", BytesText(most_bytes_), " (dataset.cache_size)"));
}

void SharedCopies::Remove(const std::string& name) const { unlink(PathOf(name).c_str()); }

std::shared_ptr<const SharedCopy> SharedCopies::OpenExisting(const Wanted& wanted) const {
  const std::string path = PathOf(wanted.name);
  const int lock = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (lock < 0) return nullptr;
  if (Lock(lock, LOCK_SH) && IsAt(lock, path)) {
    auto file = env::RandomAccessFile::Open(path);
    if (file.ok() && wanted.fits(**file)) {
      return std::make_shared<const SharedCopy>(*std::move(file), lock);
    }
  }
  close(lock);
  return nullptr;
}

absl::Status SharedCopies::MakeRoom(int64_t bytes, const std::string& name,
                                    absl::string_view or_else) const {
  struct Copy {
    int64_t used, bytes;
    std::string path;
  };
  const std::string but = absl::StrCat(PathOf(name), kPart);
  std::vector<Copy> copies;
  int64_t taken = bytes;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    struct stat file {};
    if (path == but || lstat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    if (IsPart(path) && RemoveUnused(path)) {
      LogInfo("data set: a killed process left ", path, ", which is removed");
    } else if (IsCopy(path) || IsPart(path)) {
      copies.push_back({file.st_mtim.tv_sec, file.st_size, path});
      taken += file.st_size;
    }
  }
  std::sort(copies.begin(), copies.end(),
            [](const Copy& a, const Copy& b) { return a.used < b.used; });
  for (const Copy& copy : copies) {
    if (taken <= most_bytes_) break;
    if (!RemoveUnused(copy.path)) continue;
    taken -= copy.bytes;
    LogInfo("data set: a copy is removed to make room: ", copy.path);
  }
  if (taken <= most_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("its copy of ", BytesText(bytes), " and the others in ", directory_,
                   " that are in use would take ", BytesText(taken), ": wanted at most ",
                   BytesText(most_bytes_), " (dataset.cache_size), or ", or_else));
}

absl::Status SharedCopies::Make(const Wanted& wanted) const {
  const std::string copy = PathOf(wanted.name), part = copy + kPart;
  ASSIGN_OR_RETURN(const int fd, LockPart(part));
  // The previous holder of the lock may have made the copy meanwhile.
  if (OpenExisting(wanted) != nullptr) {
    unlink(part.c_str());
    close(fd);
    return absl::OkStatus();
  }
  absl::Status status;
  // What a killed process has written may be there.
  if (ftruncate(fd, 0) != 0) status = env::SystemError(errno, "write", part);
  if (status.ok()) status = wanted.write(fd);
  if (status.ok() && fsync(fd) != 0) status = env::SystemError(errno, "write", part);
  if (status.ok() && rename(part.c_str(), copy.c_str()) != 0) {
    status = env::SystemError(errno, "rename", part);
  }
  if (!status.ok()) unlink(part.c_str());
  close(fd);
  return status;
}

}  // namespace coxswain::data
