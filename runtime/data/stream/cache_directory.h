// The cache directory, which holds indexes and decompressed copies of files.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "protos/dataset.pb.h"

namespace coxswain::data {

// StreamOptions.cache_directory, or the user's own ($XDG_CACHE_HOME/coxswain, ~/.cache/coxswain);
// empty if there is none.
std::string CacheDirectory(const proto::StreamOptions& options);

// Creates the directory, and those above it, if it does not exist, accessible by this user only,
// because it will hold the user's data. An existing directory is not changed. Errors: those of the
// system, with the path.
absl::Status MakeOwnDirectory(const std::string& directory);

// Creates the directory, and the one above it, if they do not exist; an existing one must be
// accessible by this user only. Errors: as above; FailedPrecondition for a directory that others
// can read, or that belongs to another user.
absl::Status MakePrivateDirectory(const std::string& directory);

// Whether the file or directory is this user's or root's, and only they and its group can change
// it or what is in it; in a directory with the sticky bit others can add files only. Errors:
// NotFound; FailedPrecondition, which says who else can.
absl::Status CheckNotOfOthers(const std::string& path);

// Removes the least recently used indexes until at most `most_files` of `most_bytes` are left, and
// files that killed processes left half written. Files with other names than indexes, of other
// users, and other than regular files are not touched.
void TidyIndexes(const std::string& directory, int64_t most_files = 256,
                 int64_t most_bytes = int64_t{4} << 30);

// Records that `path` was used now. Best effort.
void MarkUsed(const std::string& path);

}  // namespace coxswain::data
