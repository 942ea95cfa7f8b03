// Whether a path leads to a file that can be read again from its beginning.
#pragma once

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"

namespace coxswain::env {

// Nothing of a pipe, a device or a socket: whoever opens one may wait for ever, and what is read of
// it once is gone. Errors: InvalidArgument "PATH: wanted a file, found a pipe".
absl::Status CheckRegular(const std::string& path, const struct stat& file);

}  // namespace coxswain::env
