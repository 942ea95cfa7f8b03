#include "runtime/data/stream/kept_files.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {

absl::StatusOr<KeptFiles::File> KeptFiles::Open(const std::string& path) {
  {
    const absl::MutexLock lock(&mu_);
    if (const auto found = files_.find(path); found != files_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(auto opened, OpenDataFile(path));
  File file = std::move(opened);
  if (env::IsRemotePath(path)) {
    const absl::MutexLock lock(&mu_);
    files_[path] = file;
  }
  return file;
}

void KeptFiles::Forget(const std::string& path) {
  const absl::MutexLock lock(&mu_);
  files_.erase(path);
}

}  // namespace coxswain::data
