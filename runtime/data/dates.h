// Dates and times as files write them.
#pragma once

#include "absl/strings/string_view.h"

namespace coxswain::data {

// "2024-05-31", "2024-05-31 12:30", "2024-05-31 12:30:00" or "2024-05-31T12:30:00.5+02:00", as ISO
// 8601 has them; without a zone in UTC. Seconds since 1970.
bool ParseDate(absl::string_view text, double* seconds);

}  // namespace coxswain::data
