#include "runtime/data/stream/checked_files.h"

#include "runtime/base/status.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {

bool CheckedFiles::IsLate(const std::string& path) { return env::IsRemotePath(path); }

absl::Status CheckedFiles::Check(const std::string& path, const proto::IndexedFile& indexed) {
  if (!IsLate(path)) return absl::OkStatus();
  {
    const absl::MutexLock lock(&mu_);
    if (same_.count(path) > 0) return absl::OkStatus();
  }
  // Two threads may ask at the same time, which does no harm.
  RETURN_IF_ERROR(CheckUnchanged(path, indexed, /*same_machine=*/false));
  const absl::MutexLock lock(&mu_);
  same_.insert(path);
  return absl::OkStatus();
}

}  // namespace coxswain::data
