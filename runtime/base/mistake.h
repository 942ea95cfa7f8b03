// Which errors of what a user names are the user's to mend.
#pragma once

#include "absl/status/status.h"

namespace coxswain {

// An error of files or of what is in them with the cause kConfiguration, unless it has a cause: but
// a disk that fails, and a store that does not answer, are nobody's mistake in a job.
absl::Status AsMistake(const absl::Status& status);

}  // namespace coxswain
