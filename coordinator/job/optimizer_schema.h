// The keys of an optimizer in JOB.yaml.
#pragma once

#include "coordinator/job/schema.h"

namespace coxswain::job {

// optimizer.table, optimizer.dense, tables.NAME.optimizer. Made of the list in kernels/optimizers.
const SchemaSection& OptimizerSchema();
// Its section `schedule`, which is bound to proto::LearningRateSchedule.
const SchemaSection& OptimizerScheduleSchema();

}  // namespace coxswain::job
