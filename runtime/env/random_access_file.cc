#include "runtime/env/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace coxswain::env {
namespace {

class LocalFile final : public RandomAccessFile {
 public:
  LocalFile(int fd, const struct stat& info, const std::string& path)
      : RandomAccessFile(path, static_cast<uint64_t>(info.st_size),
                         int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec),
        fd_(fd) {}
  ~LocalFile() override { close(fd_); }

 private:
  absl::Status ReadRange(uint64_t offset, char* out, size_t bytes) const override {
    while (bytes > 0) {
      const ssize_t got = pread(fd_, out, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        return absl::DataLossError(
            absl::StrCat("cannot read ", path(), ": ", std::strerror(errno)));
      }
      if (got == 0) {
        return absl::DataLossError(absl::StrCat(path(), ": it became shorter meanwhile"));
      }
      out += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

  const int fd_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> RandomAccessFile::Open(const std::string& path) {
  const auto error = [&path](int code) -> absl::Status {
    const std::string text = absl::StrCat("cannot open ", path, ": ", std::strerror(code));
    if (code == ENOENT || code == ENOTDIR) return absl::NotFoundError(text);
    if (code == EACCES || code == EPERM) return absl::PermissionDeniedError(text);
    if (code == EMFILE || code == ENFILE) return absl::ResourceExhaustedError(text);
    return absl::InternalError(text);
  };
  // Not to wait for the other end of a pipe; a regular file does not care.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return error(errno);
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    const int code = errno;
    close(fd);
    return error(code);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  return std::make_unique<LocalFile>(fd, info, path);
}

absl::Status RandomAccessFile::Read(uint64_t offset, void* out, size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": wanted bytes ", offset, " to ",
                                              offset + bytes, ", the file has ", size_));
  }
  return ReadRange(offset, static_cast<char*>(out), bytes);
}

}  // namespace coxswain::env
