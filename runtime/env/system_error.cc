#include "runtime/env/system_error.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace coxswain::env {

absl::Status SystemError(int error, absl::string_view action, const std::string& path) {
  const std::string text = absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
      return absl::ResourceExhaustedError(text);
    case EFBIG:
      return absl::InternalError(
          absl::StrCat(text, ", by a limit of this process (ulimit -f) or of the file system"));
    case ENOTDIR:  // a file is where a directory should be
      return absl::FailedPreconditionError(text);
    default:
      return absl::InternalError(text);
  }
}

// The number of the error is gone by then; the system's words for it are not.
bool SaysNoRoom(const absl::Status& status) {
  return absl::IsResourceExhausted(status) &&
         (absl::StrContains(status.message(), std::strerror(ENOSPC)) ||
          absl::StrContains(status.message(), std::strerror(EDQUOT)));
}

}  // namespace coxswain::env
