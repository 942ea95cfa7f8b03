// What the system says of a file, as a status.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace coxswain::env {

// "cannot <action> <path>: <the system's reason>". ENOENT is NotFound; EACCES, EPERM and EROFS are
// PermissionDenied; ENOTDIR FailedPrecondition; a full disk, a quota and too many open files
// ResourceExhausted; the rest Internal.
absl::Status SystemError(int error, absl::string_view action, const std::string& path);
// Whether such a status, of this process or another, is of a full disk or a quota: room would help.
bool SaysNoRoom(const absl::Status& status);

}  // namespace coxswain::env
