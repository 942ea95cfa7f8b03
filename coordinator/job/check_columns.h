// Holds the columns that a job names against the files it names, before anything is loaded.
#pragma once

#include "absl/status/status.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::job {

// Errors: InvalidArgument with cause kConfiguration, one line "job.yaml:line:column: ..." for each
// column that the file's header does not have, with the nearest that it has; NotFound for a file
// that is not there.
absl::Status CheckColumns(const JobSpec& job);

}  // namespace coxswain::job
