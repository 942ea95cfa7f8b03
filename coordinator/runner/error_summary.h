// What a job that collected its errors ends with.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::runner {

// The first error, and what else went wrong. `failed`: `all` may have fewer.
absl::Status ErrorSummary(const absl::Status& first, const std::vector<absl::Status>& all,
                          int64_t failed);

}  // namespace coxswain::runner
