// Side tables of a data set: `dataset.join`.
#pragma once

#include "coordinator/job/job_sections.h"
#include "coordinator/job/schema.h"

namespace coxswain::job {

// One entry of the list.
const SchemaSection& JoinSchema();

void ReadJoins(const JobReader& reader);

}  // namespace coxswain::job
