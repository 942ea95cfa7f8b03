// Files without a name: nothing of them is left, whatever becomes of the process.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::env {

// A new, empty file in this directory, which only this process can reach; open for reading and
// writing until the last descriptor of it is closed, which is the caller's to do. Errors: those of
// the system, with the path.
absl::StatusOr<int> OpenUnnamedFile(const std::string& directory);

// Has the disk set aside the bytes [begin, end) of a file in this directory, which are zero then,
// if they are beyond its end; `begin` is not. After an error all is as before. Errors:
// ResourceExhausted where there is no room, with what is free;
// FailedPrecondition for a file system that cannot do this; others of the system.
absl::Status SetAside(int fd, const std::string& directory, size_t begin, size_t end);

}  // namespace coxswain::env
