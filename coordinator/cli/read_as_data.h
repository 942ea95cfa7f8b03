// What a command writes into a directory, and a later run of a job would read as data: a pattern of
// data ('days/*/*') looks into every directory that has come to lie where it looks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::cli {

enum class DirectoryOf : uint8_t {
  kModel,
  kCheckpoints,
  kEvaluations,
  kExport,
  kChaos,
  kCache,
  kSummaries
};

// Errors: of cause kConfiguration, for a directory, which need not be there yet, with files of
// which some would be among those that an input takes in. An input that is a directory takes in the
// files in it, but for names that begin with '.', and none below.
absl::Status CheckNotReadAsData(const NamedPath& directory, DirectoryOf what,
                                const std::vector<CommandInput>& inputs);
// The same of a directory for summaries, and whether these would lie in what is saved as a whole;
// makes it, and tries whether files can be made there. Nothing is checked of an empty path.
absl::Status CheckSummaryDirectory(const NamedPath& directory,
                                   const std::vector<CommandInput>& inputs);
// The same of the directory that the job itself names for indexes and copies.
absl::Status CheckCacheNotReadAsData(const job::JobSpec& job);

}  // namespace coxswain::cli
