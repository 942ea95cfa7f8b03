// Learning rates of tables that a job that goes on has otherwise than before.
#pragma once

#include <string>

#include "coordinator/job/job_spec.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::cli {

// "user, item: 0.001, now 0.005"; empty where each table that the checkpoint
// has goes on with its own. The job's file may be the same: defaults differ between versions.
std::string ChangedRates(const checkpoint::Manifest& checkpoint, const job::JobSpec& job);

}  // namespace coxswain::cli
