#include "runtime/data/data_file.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/remote_files.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {

absl::StatusOr<std::unique_ptr<env::RandomAccessFile>> OpenDataFile(const std::string& path) {
  if (!env::IsRemotePath(path)) return env::RandomAccessFile::Open(path);
  ASSIGN_OR_RETURN(RemoteFile remote, OpenRemoteFile(path));
  return std::move(remote.file);
}

bool IsOfOtherSize(const std::string& path, int64_t bytes) {
  const auto file = OpenDataFile(path);
  if (!file.ok()) return absl::IsNotFound(file.status());
  return static_cast<int64_t>((*file)->size()) != bytes;
}

}  // namespace coxswain::data
