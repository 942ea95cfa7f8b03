// A job whose values are read from files onto parameter servers and then asked, not trained.
#pragma once

#include "coordinator/job/job_spec.h"

namespace coxswain::model {

// Where a table is makes no difference to what it says, and a machine that evaluates a model need
// not have the GPUs of those that trained it.
void KeepTablesOnHost(job::JobSpec* job);

// The job as far as evaluations and predictions see it: its variables without optimizer slots, and
// nothing that takes rows away or stops a training.
job::JobSpec AsEvaluated(job::JobSpec job);

}  // namespace coxswain::model
