// Models whose vectors meet in products of pairs need them of one width, and two at least.
#pragma once

#include <string>
#include <vector>

#include "coordinator/job/job_sections.h"

namespace coxswain::model {

// Completes `features` and sets their width to `dim`. The numbers make one vector together, or each
// its own.
void CompleteProductFeatures(const job::JobReader& reader, int64_t dim, bool numbers_are_one,
                             std::vector<std::string>* features);

}  // namespace coxswain::model
