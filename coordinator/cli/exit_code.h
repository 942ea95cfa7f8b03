// The exit codes that scripts rely on.
#pragma once

#include "absl/status/status.h"

namespace coxswain::cli {

enum ExitCode {
  kExitDone = 0,
  kExitUsage = 2,          // wrong usage, configuration or data; an output that would cost a file
  kExitJobFailed = 3,      // also: a broken promise of a chaos run, a damaged file
  kExitUnreachable = 4,    // the cluster could not be reached in time
  kExitResumable = 75,     // interrupted, but --resume goes on
  kExitInterrupted = 130,  // Ctrl-C
};

// By the error's cause.
ExitCode ToExitCode(const absl::Status& status);

}  // namespace coxswain::cli
