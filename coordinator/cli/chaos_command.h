// `coxswain train --chaos` and `coxswain chaos`: a job under fire.
#pragma once

#include "coordinator/cli/commands.h"
#include "coordinator/cli/report_output.h"

namespace coxswain::cli {

// With flags.chaos, and flags.where being --local or --cluster; the daemons of a cluster file must
// be of this machine. Must be called on the main thread. Returns the exit code: the job's; 3 when a
// promise was broken.
int RunUnderChaos(const TrainFlags& flags, const ReportOutput& report);

}  // namespace coxswain::cli
