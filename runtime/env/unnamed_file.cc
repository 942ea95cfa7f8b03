#include "runtime/env/unnamed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/env/system_error.h"

namespace coxswain::env {
namespace {

// For this user; none: the file system does not tell.
std::optional<int64_t> FreeBytes(const std::string& directory) {
  struct statvfs stat {};
  if (statvfs(directory.c_str(), &stat) != 0 || stat.f_blocks == 0) return std::nullopt;
  return static_cast<int64_t>(stat.f_bavail) * static_cast<int64_t>(stat.f_frsize);
}

std::string FreeText(const std::string& directory) {
  const auto free = FreeBytes(directory);
  return free ? absl::StrCat(", free are ", BytesText(*free)) : "";
}

}  // namespace

absl::StatusOr<int> OpenUnnamedFile(const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  // Not every file system has files without a name.
  std::string path = directory + "/scratch.XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return SystemError(errno, "make", path);
  unlink(path.c_str());
  return named;
}

absl::Status SetAside(int fd, const std::string& directory, size_t begin, size_t end) {
  if (end <= begin) return absl::OkStatus();
  const auto no_room = [&](const char* why) {
    return absl::ResourceExhaustedError(
        absl::StrCat("wanted ", BytesText(static_cast<int64_t>(end - begin)), " in ", directory,
                     FreeText(directory), ": ", why));
  };
  // A file system may give all that it has before it finds that this is not enough, and others
  // would have nothing meanwhile.
  if (const auto free = FreeBytes(directory); free && *free < static_cast<int64_t>(end - begin)) {
    return no_room(std::strerror(ENOSPC));
  }
  struct stat before {};
  if (fstat(fd, &before) != 0) return SystemError(errno, "stat a file in", directory);
  while (fallocate(fd, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    // Some keep what they have set aside until then.
    if (ftruncate(fd, before.st_size) != 0)
      return SystemError(errno, "shorten a file in", directory);
    if (error == EOPNOTSUPP || error == ENOSYS) {
      return absl::FailedPreconditionError(absl::StrCat(
          directory, ": its file system cannot set space aside for a file (fallocate);",
          " wanted one such as ext4, xfs or tmpfs"));
    }
    // EFBIG: a limit on the size of files.
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
      return no_room(std::strerror(error));
    }
    return SystemError(error, "set space aside in", directory);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::env
