// Names and locks of copies; making room for another copy; opening a copy, which is written first
// if it does not exist.
#include "runtime/data/stream/unpacked_files.h"

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
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/data_file.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/cache_directory.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/env/system_error.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

constexpr char kCopy[] = ".unpacked", kPart[] = ".unpacked.part";
constexpr size_t kChunk = size_t{1} << 20;
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
  off_t bytes = -1;
  absl::Duration waited;  // since it grew
  while (true) {
    const int fd = open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return env::SystemError(errno, "make", part);
    if (Lock(fd, LOCK_EX)) {
      if (IsAt(fd, part)) return fd;
      close(fd);  // its writer has just finished
      continue;
    }
    struct stat found {};
    if (fstat(fd, &found) == 0 && found.st_size != bytes) {
      bytes = found.st_size;
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

absl::Status WriteAll(int fd, const char* p, size_t bytes, const std::string& path) {
  while (bytes > 0) {
    const ssize_t written = write(fd, p, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return env::SystemError(errno, "write", path);
    p += written;
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

std::string DirectoryOf(const proto::StreamOptions& options) {
  const std::string cache = CacheDirectory(options);
  return cache.empty() ? cache : cache + "/unpacked";
}

}  // namespace

UnpackedFiles::UnpackedFiles(const proto::StreamOptions& options)
    : directory_(DirectoryOf(options)),
      most_bytes_(options.cache_bytes() > 0 ? options.cache_bytes() : kDefaultCacheBytes) {}

UnpackedFiles::~UnpackedFiles() {
  for (const auto& [path, opened] : opened_) close(opened.lock);
}

absl::StatusOr<UnpackedFiles::File> UnpackedFiles::Open(const std::string& path,
                                                        const proto::IndexedFile& indexed) {
  absl::MutexLock lock(&mu_);
  if (const auto found = opened_.find(path); found != opened_.end()) return found->second.file;
  if (directory_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": it is packed, and there is no directory for an unpacked copy: wanted ",
        "dataset.cache_directory, or HOME in the environment"));
  }
  RETURN_IF_ERROR(Annotate(MakePrivateDirectory(directory_), path));
  ASSIGN_OR_RETURN(const proto::IndexedFile now, IdentifyFile(path));
  if (now.bytes() != indexed.bytes() || now.samples() != indexed.samples()) {
    return ChangedError(path, indexed);
  }
  uint64_t name = HashPair(HashText(path), now.samples());
  for (const int64_t number : {now.bytes(), now.modified_ns(), indexed.unpacked_bytes()}) {
    name = HashPair(name, static_cast<uint64_t>(number));
  }
  const std::string copy = absl::StrCat(directory_, "/", absl::StrFormat("%016x", name), kCopy);
  // Another process may remove it between the two, to make room.
  for (int tries = 0; tries < 3; ++tries) {
    Opened opened = OpenCopy(copy, indexed.unpacked_bytes());
    if (opened.file != nullptr) {
      MarkUsed(copy);
      return opened_.emplace(path, std::move(opened)).first->second.file;
    }
    RETURN_IF_ERROR(Annotate(Unpack(path, indexed, copy), path + ": unpacking it"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      path, ": its unpacked copy is removed by others as soon as it is written: wanted more than ",
      BytesText(most_bytes_), " (dataset.cache_size)"));
}

UnpackedFiles::Opened UnpackedFiles::OpenCopy(const std::string& copy, int64_t bytes) const {
  Opened opened;
  opened.lock = open(copy.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (opened.lock < 0) return opened;
  if (Lock(opened.lock, LOCK_SH) && IsAt(opened.lock, copy)) {
    auto file = env::RandomAccessFile::Open(copy);
    if (file.ok() && static_cast<int64_t>((*file)->size()) == bytes) {
      opened.file = *std::move(file);
      return opened;
    }
  }
  close(opened.lock);
  opened.lock = -1;
  return opened;
}

absl::Status UnpackedFiles::MakeRoom(int64_t bytes, const std::string& but) const {
  struct Copy {
    int64_t used, bytes;
    std::string path;
  };
  std::vector<Copy> copies;
  int64_t taken = bytes;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    struct stat file {};
    if (path == but || lstat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    if (absl::EndsWith(path, kPart) && RemoveUnused(path)) {
      LogInfo("data set: a killed process left ", path, ", which is removed");
    } else if (absl::EndsWith(path, kCopy) || absl::EndsWith(path, kPart)) {
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
    LogInfo("data set: an unpacked copy is removed to make room: ", copy.path);
  }
  if (taken <= most_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "its copy of ", BytesText(bytes), " and the others in ", directory_,
      " that are in use would take ", BytesText(taken), ": wanted at most ", BytesText(most_bytes_),
      " (dataset.cache_size), or files that are not packed, or dataset.streaming: false"));
}

absl::Status UnpackedFiles::Unpack(const std::string& path, const proto::IndexedFile& indexed,
                                   const std::string& copy) const {
  const std::string part = absl::StrCat(copy, absl::string_view(kPart).substr(sizeof(kCopy) - 1));
  ASSIGN_OR_RETURN(const int fd, LockPart(part));
  // The previous holder of the lock may have made the copy meanwhile.
  if (const Opened made = OpenCopy(copy, indexed.unpacked_bytes()); made.file != nullptr) {
    close(made.lock);
    unlink(part.c_str());
    close(fd);
    return absl::OkStatus();
  }
  absl::Status status = MakeRoom(indexed.unpacked_bytes(), part);
  if (status.ok()) {
    LogInfo("data set: ", path, " is packed and cannot be entered in the middle: it is unpacked, ",
            BytesText(indexed.unpacked_bytes()), ", into ", copy);
    status = Write(path, indexed, fd);
  }
  if (status.ok() && fsync(fd) != 0) status = env::SystemError(errno, "write", part);
  if (status.ok() && rename(part.c_str(), copy.c_str()) != 0) {
    status = env::SystemError(errno, "rename", part);
  }
  if (!status.ok()) unlink(part.c_str());
  close(fd);
  return status;
}

absl::Status UnpackedFiles::Write(const std::string& path, const proto::IndexedFile& indexed,
                                  int part) const {
  if (ftruncate(part, 0) != 0) return env::SystemError(errno, "write", directory_);
  ASSIGN_OR_RETURN(auto file, OpenDataFile(path));
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::OfFile(std::move(file)));
  std::vector<char> chunk(kChunk);
  int64_t bytes = 0;
  for (size_t count = chunk.size(); count == chunk.size();) {
    ASSIGN_OR_RETURN(count, source->Read(chunk.data(), chunk.size()));
    bytes += static_cast<int64_t>(count);
    if (bytes > indexed.unpacked_bytes()) return ChangedError(path, indexed);
    RETURN_IF_ERROR(WriteAll(part, chunk.data(), count, directory_));
  }
  if (bytes != indexed.unpacked_bytes()) return ChangedError(path, indexed);
  return CheckUnchanged(path, indexed, /*same_machine=*/false);
}

}  // namespace coxswain::data
