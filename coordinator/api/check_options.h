// Whether a cluster's options are numbers and times that it can work with.
#pragma once

#include "absl/status/status.h"
#include "coxswain/cluster.h"

namespace coxswain {

// Errors: InvalidArgument, with the option's name, what was wanted and what was found.
absl::Status CheckOptions(const ClusterOptions& options);

}  // namespace coxswain
