// Which checkpoints of a directory that a job writes into are newer than the one that was seen
// last: for whoever follows the job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

struct SeenCheckpoint {
  uint64_t number = 0;
  std::string identity;  // another one under the same number is another checkpoint
};

// By numbers, the highest first. When the one that was seen is gone and none has as high a number,
// a job began anew: all are newer. A directory that is not there has none. `identity_of` is asked
// for the identity of those that may be newer. Errors: when the directory cannot be listed.
absl::StatusOr<std::vector<SeenCheckpoint>> NewerCheckpoints(
    env::FileSystem* files, const std::string& directory, const std::optional<SeenCheckpoint>& seen,
    const std::function<std::string(uint64_t number)>& identity_of);

}  // namespace coxswain::model
