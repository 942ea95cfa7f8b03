// The keys of an embedding table in JOB.yaml: its rows, their initial values and where they are.
#pragma once

#include "coordinator/job/schema.h"

namespace coxswain::job {

// tables.NAME.
const SchemaSection& TableSchema();

}  // namespace coxswain::job
