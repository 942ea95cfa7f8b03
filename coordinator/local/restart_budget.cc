#include "coordinator/local/restart_budget.h"

#include <algorithm>
#include <cmath>

namespace coxswain::local {

std::optional<absl::Duration> RestartBudget::Spend(absl::Duration now) {
  used_ = std::max(0.0, used_ - absl::FDivDuration(now - at_, policy_.refill));
  at_ = now;
  if (used_ + 1 > policy_.most) return std::nullopt;
  const double before = std::round(used_);  // a second of refill makes no difference
  used_ += 1;
  if (before == 0) return absl::ZeroDuration();
  return std::min(policy_.longest_delay, policy_.first_delay * std::exp2(before - 1));
}

}  // namespace coxswain::local
