// Features that a job lists and does nothing with.
#pragma once

#include <string>
#include <vector>

#include "coordinator/job/job_spec.h"

namespace coxswain::job {

// Those that neither a key of `model` names nor the label, another feature or `evaluate`, and
// of which the model has no table, in the file's order. They are read and change nothing: often one
// was forgotten.
std::vector<std::string> UnusedFeatures(const JobSpec& job);

}  // namespace coxswain::job
