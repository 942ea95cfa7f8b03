// Files through the system's cache and past it, directories that last, and the file system of them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/file_lock.h"
#include "runtime/env/file_system.h"
#include "runtime/env/keep_access.h"
#include "runtime/env/regular_file.h"
#include "runtime/env/system_error.h"
#include "runtime/env/unfinished_files.h"

namespace coxswain::env {
namespace {

namespace fs = std::filesystem;

class PosixFile : public WritableFile {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixFile() override {
    if (fd_ >= 0) close(fd_);
  }

  absl::Status Append(const void* data, size_t bytes) override {
    const char* p = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = write(fd_, p, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return SystemError(errno, "write", path_);
      p += written;
      bytes -= static_cast<size_t>(written);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    return fsync(fd_) == 0 ? absl::OkStatus() : SystemError(errno, "sync", path_);
  }

  absl::Status Close() override {
    const int fd = std::exchange(fd_, -1);
    return close(fd) == 0 ? absl::OkStatus() : SystemError(errno, "close", path_);
  }

 protected:
  int fd_;
  const std::string path_;
};

// Writes by O_DIRECT: the system's cache would take fresh memory for every page, which costs more
// than all else in writing a checkpoint, and would push out what others use.
class DirectFile final : public PosixFile {
 public:
  DirectFile(int fd, std::string path)
      : PosixFile(fd, std::move(path)), memory_(Buffer::Allocate(kStagingBytes + kDirectBlock)) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    staging_ = static_cast<char*>(memory_.data()) + (kDirectBlock - address % kDirectBlock);
  }

  absl::Status Append(const void* data, size_t bytes) override {
    const char* p = static_cast<const char*>(data);
    if (bytes >= kLargeBytes && fill_ % kDirectBlock == 0 &&
        reinterpret_cast<uintptr_t>(p) % kDirectBlock == 0) {
      RETURN_IF_ERROR(Advance(staging_, fill_));
      const size_t blocks = bytes / kDirectBlock * kDirectBlock;
      RETURN_IF_ERROR(Advance(p, blocks));
      p += blocks;
      bytes -= blocks;
    }
    while (bytes > 0) {
      const size_t n = std::min(bytes, kStagingBytes - fill_);
      std::memcpy(staging_ + fill_, p, n);
      fill_ += n;
      p += n;
      bytes -= n;
      if (fill_ == kStagingBytes) RETURN_IF_ERROR(Advance(staging_, fill_));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    RETURN_IF_ERROR(WriteRest());
    return PosixFile::Sync();
  }

  absl::Status Close() override {
    const absl::Status written = WriteRest();
    const absl::Status closed = PosixFile::Close();
    return written.ok() ? closed : written;
  }

 private:
  static constexpr size_t kStagingBytes = size_t{1} << 20, kLargeBytes = size_t{256} << 10;

  // Whole blocks, all that is before the next byte of the file.
  absl::Status Advance(const char* from, size_t bytes) {
    RETURN_IF_ERROR(Write(from, bytes));
    begin_ += bytes;
    fill_ = written_rest_ = 0;
    return absl::OkStatus();
  }

  absl::Status Write(const char* from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
      const ssize_t n = pwrite(fd_, from + done, bytes - done, static_cast<off_t>(begin_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EINVAL && direct_) {
        // Other blocks are wanted here, or a write of a part has left its middle.
        direct_ = false;
        if (fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) & ~O_DIRECT) == 0) continue;
      }
      if (n < 0) return SystemError(errno, "write", path_);
      done += static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

  // Whole blocks, and then the file gets its true size. More may be appended afterwards.
  absl::Status WriteRest() {
    if (fill_ == written_rest_) return absl::OkStatus();
    const size_t blocks = (fill_ + kDirectBlock - 1) / kDirectBlock * kDirectBlock;
    std::memset(staging_ + fill_, 0, blocks - fill_);
    RETURN_IF_ERROR(Write(staging_, blocks));
    if (ftruncate(fd_, static_cast<off_t>(begin_ + fill_)) != 0) {
      return SystemError(errno, "write", path_);
    }
    written_rest_ = fill_;
    return absl::OkStatus();
  }

  Buffer memory_;
  char* staging_;            // kStagingBytes, aligned
  size_t begin_ = 0;         // where in the file the staging memory belongs
  size_t fill_ = 0;          // bytes in it
  size_t written_rest_ = 0;  // of it, by WriteRest
  bool direct_ = true;
};

absl::Status SyncDirectoryAt(const std::string& dir) {
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError(errno, "open", dir);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : SystemError(error, "sync", dir);
}

// A rename lasts only once the directory is synced too.
absl::Status SyncDirectoryOf(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return SyncDirectoryAt(parent.empty() ? "." : parent.string());
}

// To read all of a file. Who opens a pipe without O_NONBLOCK waits until somebody writes into it.
absl::StatusOr<int> OpenWhole(const std::string& path, struct stat* info) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(errno, "open", path);
  absl::Status status;
  if (fstat(fd, info) != 0) {
    status = SystemError(errno, "stat", path);
  } else {
    status = CheckRegular(path, *info);
  }
  if (status.ok()) return fd;
  close(fd);
  return status;
}

class RealFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::string> Read(const std::string& path) override {
    struct stat info {};
    ASSIGN_OR_RETURN(const int fd, OpenWhole(path, &info));
    std::string content;
    char chunk[1 << 16];
    while (true) {
      const ssize_t n = read(fd, chunk, sizeof(chunk));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int error = errno;
        close(fd);
        return SystemError(error, "read", path);
      }
      if (n == 0) break;
      content.append(chunk, static_cast<size_t>(n));
    }
    close(fd);
    return content;
  }

  absl::StatusOr<Buffer> Map(const std::string& path) override {
    struct stat info {};
    ASSIGN_OR_RETURN(const int fd, OpenWhole(path, &info));
    const auto size = static_cast<size_t>(info.st_size);
    if (size == 0) {
      close(fd);
      return Buffer();
    }
    // Private and writable: a tensor on it may be changed in place.
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    const int error = errno;
    close(fd);
    if (memory == MAP_FAILED) return SystemError(error, "map", path);
#ifdef MADV_POPULATE_READ
    // Reads it now: what cannot be read is an error here, and would be a SIGBUS later. Kernels
    // before 5.14 do not know this.
    if (madvise(memory, size, MADV_POPULATE_READ) != 0 && (errno == EFAULT || errno == EHWPOISON)) {
      munmap(memory, size);
      return absl::DataLossError(
          absl::StrCat("cannot read ", path, ": the system fails to load it"));
    }
#endif
    return Buffer::Wrap(memory, size, Device{}, [memory, size] { munmap(memory, size); });
  }

  absl::StatusOr<uint64_t> Size(const std::string& path) override {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return SystemError(errno, "stat", path);
    return static_cast<uint64_t>(info.st_size);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kNewFile);
    if (fd < 0) return SystemError(errno, "create", path);
    return std::unique_ptr<WritableFile>(new PosixFile(fd, path));
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateLarge(const std::string& path) override {
    const int fd =
        open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, kNewFile);
    if (fd < 0 && errno == EINVAL) return Create(path);  // this file system has no such thing
    if (fd < 0) return SystemError(errno, "create", path);
    return std::unique_ptr<WritableFile>(new DirectFile(fd, path));
  }

  absl::Status WriteAtomically(const std::string& path, absl::string_view content) override {
    ASSIGN_OR_RETURN(UnfinishedFile unfinished, UnfinishedFile::Beside(path));
    const int fd = fcntl(unfinished.fd(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return SystemError(errno, "open", unfinished.path());
    PosixFile file(fd, unfinished.path());
    KeepAccess(path, unfinished.path());  // before there is anything to read in it
    RETURN_IF_ERROR(file.Append(content.data(), content.size()));
    RETURN_IF_ERROR(file.Sync());
    RETURN_IF_ERROR(file.Close());
    return unfinished.MoveTo(this, path);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return SystemError(errno, "rename", from);
    return SyncDirectoryOf(to);
  }

  absl::Status Exchange(const std::string& a, const std::string& b) override {
    if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) {
      RETURN_IF_ERROR(SyncDirectoryOf(a));
      return SyncDirectoryOf(b);
    }
    // EINVAL: the file system does not know the flag.
    if (errno == ENOSYS || errno == EINVAL) return FileSystem::Exchange(a, b);
    return SystemError(errno, "rename", b);
  }

  absl::Status Link(const std::string& from, const std::string& to) override {
    return link(from.c_str(), to.c_str()) == 0 ? absl::OkStatus()
                                               : SystemError(errno, "link", from);
  }

  absl::Status SyncDirectory(const std::string& path) override { return SyncDirectoryAt(path); }

  absl::Status MakeDirs(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    return error ? SystemError(error.value(), "create directory", path) : absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    // Not a range-based for, whose step to the next entry throws.
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) return SystemError(error.value(), "list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status RemoveAll(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    return error ? SystemError(error.value(), "remove", path) : absl::OkStatus();
  }

  bool Exists(const std::string& path) override {
    std::error_code error;
    return fs::exists(path, error);
  }

  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                 absl::string_view content) override {
    return LockFile(path, content);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> TakeLock(const std::string& path,
                                                     absl::string_view content) override {
    return LockNewFile(path, content);
  }
};

}  // namespace

std::unique_ptr<FileSystem> NewRealFileSystem() { return std::make_unique<RealFileSystem>(); }

}  // namespace coxswain::env
