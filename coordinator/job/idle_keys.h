// Keys of a job that would change nothing.
#pragma once

#include "absl/status/status.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::job {

// For jobs that somebody writes. What models and checkpoints have kept of jobs may have such keys,
// which earlier versions let pass: they are not asked. Errors: InvalidArgument with one line for
// each key, cause kConfiguration.
absl::Status CheckNoIdleKeys(const JobSpec& job);

}  // namespace coxswain::job
