// The directory in which indexes and unpacked copies of files are kept.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "protos/dataset.pb.h"

namespace coxswain::data {

// StreamOptions.cache_directory, or the user's own ($XDG_CACHE_HOME/coxswain, ~/.cache/coxswain);
// empty where there is none.
std::string CacheDirectory(const proto::StreamOptions& options);

// Makes it, and those above it, where it is not there: for nobody else, as what is in it is of the
// user's data. One that is there stays as it is. Errors: those of the system, with the path.
absl::Status MakeOwnDirectory(const std::string& directory);

// Makes it, and the one above it, where they are not there; one that is there has to be this user's
// alone. Errors: as above;
// FailedPrecondition for one that others can read, or that is another's.
absl::Status MakePrivateDirectory(const std::string& directory);

// Of the indexes there, those that were used longest ago are removed until there are at most
// `most_files` of `most_bytes`, with what killed processes left half written. What has another
// name than an index has, is another user's, or is no regular file stays.
void TidyIndexes(const std::string& directory, int64_t most_files = 256,
                 int64_t most_bytes = int64_t{4} << 30);

// `path` was used now. Best effort.
void MarkUsed(const std::string& path);

}  // namespace coxswain::data
