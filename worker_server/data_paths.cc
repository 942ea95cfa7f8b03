#include "worker_server/data_paths.h"

#include <string>

#include "runtime/base/status.h"
#include "runtime/data/file_list.h"

namespace coxswain::worker {

absl::Status ResolvePaths(const env::Roots& roots, proto::DatasetSpec* spec) {
  if (roots.everywhere()) return absl::OkStatus();
  for (std::string* path : data::FilesOf(spec)) {
    ASSIGN_OR_RETURN(*path, roots.Resolve(*path));
  }
  // Copies of packed files are written only where the worker may write for others, or into its own
  // user's directory.
  std::string* const cache = spec->mutable_stream()->mutable_cache_directory();
  *cache = cache->empty() ? *cache : roots.Resolve(*cache).value_or("");
  return absl::OkStatus();
}

}  // namespace coxswain::worker
