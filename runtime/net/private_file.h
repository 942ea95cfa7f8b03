// Files with something that only their owner may know.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::net {

// What is in a file that nobody but its owner can read: this user or root; one of root may be
// readable by its group. At most `most` bytes. `what` is its name in messages, which say how to
// mend it; they have cause kConfiguration. Errors: InvalidArgument for no file or one that is
// larger, NotFound, PermissionDenied and others of the file system.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, const std::string& what,
                                            size_t most);

// The same of a file that others may read and write.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, const std::string& what,
                                          size_t most);

// Makes a file with `text`, whole or not at all, and never in place of another. Errors:
// AlreadyExists and others of the file system, with cause kConfiguration.
absl::Status WriteNewFile(const std::string& path, const std::string& what, const std::string& text,
                          mode_t mode);

}  // namespace coxswain::net
