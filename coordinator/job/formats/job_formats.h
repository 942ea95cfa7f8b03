// The list of runtime/data/formats/format_list.h, as a job sees it.
#pragma once

#include "coordinator/job/job_format.h"
#include "runtime/data/formats/format_list.h"

namespace coxswain::job {

#define COX_DECLARE(file, name) const JobFormat& name##JobFormat();
COX_DATA_FORMATS(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::job
