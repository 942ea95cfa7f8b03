// A second directory of a checkpoint, which stays when the job that wrote it removes the first one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "runtime/env/file_system.h"

namespace coxswain::checkpoint {

// Makes the directory `to`, with the manifest and all files of the checkpoint in `from`: as links,
// which take no space, or as copies where the file system cannot link them. It is written under
// `to` + ".tmp", which is replaced, and renamed when it is whole; there must be nothing at `to`.
// Errors: Unavailable when `from` was removed meanwhile; DataLoss for a manifest that cannot be
// read, and for files that are missing or of another size; those of the file system.
absl::Status KeepCheckpoint(env::FileSystem* files, const std::string& from, const std::string& to);

}  // namespace coxswain::checkpoint
