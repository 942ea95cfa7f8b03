#include "coordinator/api/check_consistency.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace coxswain {

absl::Status CheckConsistency(const Consistency& consistency) {
  constexpr int64_t kMost = Consistency::kMostReplicas;
  const struct {
    const char* member;
    int64_t value, least, most;
  } kNumbers[] = {
      {"max_staleness", consistency.max_staleness, 0, std::numeric_limits<int64_t>::max()},
      {"replicas", consistency.replicas, 1, kMost},
      {"backup", consistency.backup, 0, kMost},
      {"group_size", consistency.group_size, 1, kMost},
      {"accumulate", consistency.accumulate, 1, kMost},
  };
  for (const auto& [member, value, least, most] : kNumbers) {
    if (value >= least && value <= most) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Consistency::", member, ": wanted ", least, " to ", most, ", found ", value));
  }
  const double factor = consistency.delay_compensation;
  if (!std::isfinite(factor) || factor < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Consistency::delay_compensation: wanted at least 0, found ", factor));
  }
  if (!consistency.in_steps()) return absl::OkStatus();
  if (factor != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Consistency::delay_compensation: only where an update is of one batch and "
                     "applied as it comes; wanted 0, found ",
                     factor));
  }
  if (consistency.batches() > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("Consistency: an update has at most ", kMost,
                                                   " batches, found ", consistency.batches()));
  }
  return absl::OkStatus();
}

}  // namespace coxswain
