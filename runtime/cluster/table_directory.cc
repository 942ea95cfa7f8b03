#include "runtime/cluster/table_directory.h"

#include <unistd.h>

#include <cstddef>
#include <cstdlib>

#include "runtime/base/status.h"
#include "runtime/env/unnamed_file.h"

namespace coxswain::cluster {

std::string WantedTableDirectory() {
  const char* const set = std::getenv(kTableDirectoryVariable);
  return set == nullptr ? "" : set;
}

absl::Status CheckTableDirectory(const std::string& directory) {
  constexpr size_t kSomeBytes = 4096;
  if (directory.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int fd, env::OpenUnnamedFile(directory));
  const absl::Status set_aside = env::SetAside(fd, directory, 0, kSomeBytes);
  close(fd);
  return set_aside;
}

}  // namespace coxswain::cluster
