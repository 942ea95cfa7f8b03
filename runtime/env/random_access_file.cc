#include "runtime/env/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace coxswain::env {

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
  return std::unique_ptr<RandomAccessFile>(
      new RandomAccessFile(fd, static_cast<uint64_t>(info.st_size), path));
}

RandomAccessFile::~RandomAccessFile() { close(fd_); }

absl::Status RandomAccessFile::Read(uint64_t offset, void* out, size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": wanted bytes ", offset, " to ",
                                              offset + bytes, ", the file has ", size_));
  }
  char* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::DataLossError(absl::StrCat("cannot read ", path_, ": ", std::strerror(errno)));
    }
    if (got == 0) return absl::DataLossError(absl::StrCat(path_, ": it became shorter meanwhile"));
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::env
