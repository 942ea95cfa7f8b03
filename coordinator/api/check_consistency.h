// Whether a program's Consistency makes sense. Jobs are checked by their schema.
#pragma once

#include "absl/status/status.h"
#include "coxswain/cluster.h"

namespace coxswain {

// Errors: InvalidArgument, with the member, what was wanted and what was found.
absl::Status CheckConsistency(const Consistency& consistency);

}  // namespace coxswain
