#include "runtime/net/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/shell.h"
#include "runtime/base/status.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::net {
namespace {

absl::Status Wrong(absl::StatusCode code, absl::string_view message) {
  return WithDetail(absl::Status(code, message), {ErrorCause::kConfiguration, false, "", 0});
}

absl::Status SystemError(int error, absl::string_view what) {
  return Wrong(absl::ErrnoToStatusCode(error), absl::StrCat(what, ": ", std::strerror(error)));
}

absl::Status CheckOwner(const struct stat& file, const std::string& what, const std::string& path) {
  const bool mine = file.st_uid == geteuid(), root = file.st_uid == 0;
  if (!mine && !root) {
    return Wrong(absl::StatusCode::kPermissionDenied,
                 absl::StrCat(what, " belongs to user ", file.st_uid,
                              ", who can change it: wanted one of this user or of root"));
  }
  const mode_t others = file.st_mode & (root ? 027 : 077);
  if (others == 0) return absl::OkStatus();
  return Wrong(absl::StatusCode::kPermissionDenied,
               absl::StrCat(what, ": others can read or change it (its mode is ",
                            absl::StrFormat("%04o", file.st_mode & 07777), "); wanted 0600: chmod ",
                            "600 ", ShellQuoted(path)));
}

absl::StatusOr<std::string> Read(const std::string& path, const std::string& what, size_t most,
                                 bool is_private) {
  // Not to wait for a pipe's other end.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return SystemError(errno, what);
  struct stat file = {};
  if (fstat(fd.get(), &file) != 0) return SystemError(errno, what);
  if (!S_ISREG(file.st_mode)) {
    return Wrong(absl::StatusCode::kInvalidArgument, absl::StrCat(what, ": wanted a file"));
  }
  if (is_private) RETURN_IF_ERROR(CheckOwner(file, what, path));
  std::string text(most + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd.get(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(errno, what);
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  if (size > most) {
    return Wrong(absl::StatusCode::kInvalidArgument,
                 absl::StrCat(what, ": wanted at most ", most, " bytes, found more"));
  }
  text.resize(size);
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, const std::string& what,
                                            size_t most) {
  return Read(path, what, most, /*is_private=*/true);
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, const std::string& what,
                                          size_t most) {
  return Read(path, what, most, /*is_private=*/false);
}

absl::Status WriteNewFile(const std::string& path, const std::string& what, const std::string& text,
                          mode_t mode) {
  // Whole or not at all: several processes that start at the same time may all want to make it.
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  unlink(temporary.c_str());  // of an earlier process of this number
  const UniqueFd fd(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return SystemError(errno, temporary);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;  // one that takes a part only does not say why, the next one does
    done += static_cast<size_t>(n);
  }
  const bool written = done == text.size() && fchmod(fd.get(), mode) == 0 && fsync(fd.get()) == 0;
  const bool linked = written && link(temporary.c_str(), path.c_str()) == 0;
  const int reason = errno;
  unlink(temporary.c_str());
  if (linked) return absl::OkStatus();
  return SystemError(reason, what);
}

}  // namespace coxswain::net
