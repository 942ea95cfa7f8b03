#include "coordinator/api/check_consistency.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain {

namespace {

// Who sets a member that the mode does not use has forgotten the mode.
absl::Status CheckMode(const Consistency& consistency) {
  const ConsistencyMode mode = consistency.mode;
  if (mode > ConsistencyMode::kHybrid) {
    return absl::InvalidArgumentError(
        absl::StrCat("Consistency::mode: there is no ", static_cast<int>(mode)));
  }
  const struct {
    const char *member, *mode;
    bool wrong;
  } kMembers[] = {
      {"replicas", "kSync", mode != ConsistencyMode::kSync && consistency.replicas != 1},
      {"backup", "kSync", mode != ConsistencyMode::kSync && consistency.backup != 0},
      {"group_size", "kHybrid", mode != ConsistencyMode::kHybrid && consistency.group_size != 1},
  };
  for (const auto& [member, wanted, wrong] : kMembers) {
    if (!wrong) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Consistency::", member, ": only with the mode ", wanted));
  }
  return absl::OkStatus();
}

}  // namespace

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
  RETURN_IF_ERROR(CheckMode(consistency));
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
