#include "coordinator/core/quarantine.h"

#include <algorithm>

namespace coxswain::core {

bool Quarantine::IsSuspect(ClosureId closure) const {
  const auto it = records_.find(closure);
  return it != records_.end() && it->second.losses >= std::max(1, options_.after - 1);
}

void Quarantine::OnLoss(const std::vector<ClosureId>& closures, absl::Duration now) {
  if (options_.after <= 0) return;
  const bool on_trial = closures.size() == 1 && IsSuspect(closures[0]);
  const bool another = last_loss_ && now - *last_loss_ < options_.window;
  last_loss_ = now;
  for (ClosureId accused : std::vector<ClosureId>(accused_.begin(), accused_.end())) {
    if (now - records_[accused].last_loss < options_.window) Clear(accused);
  }
  for (ClosureId closure : closures) {
    Record& record = records_[closure];
    ++record.losses;
    record.last_loss = now;
  }
  if (!on_trial) return;
  accused_.insert(closures[0]);
  if (another) Clear(closures[0]);
}

void Quarantine::Clear(ClosureId closure) {
  Record& record = records_[closure];
  if (record.cleared >= options_.most_cleared) return;
  ++record.cleared;
  accused_.erase(closure);
  cleared_.insert(closure);
}

absl::Duration Quarantine::NextTime(ClosureId closure) const {
  const auto it = records_.find(closure);
  if (it == records_.end()) return absl::ZeroDuration();
  const absl::Duration since = it->second.last_loss;
  if (IsAccused(closure)) return since + options_.window;
  absl::Duration when = since + options_.patience;
  if (last_loss_) when = std::min(when, *last_loss_ + options_.calm);
  // Not beside a verdict: this one's loss would clear that one.
  for (ClosureId accused : accused_) when = std::max(when, NextTime(accused));
  return when;
}

void Quarantine::Forget(ClosureId closure) {
  records_.erase(closure);
  if (!accused_.empty()) accused_.erase(closure);
  if (!cleared_.empty()) cleared_.erase(closure);
}

}  // namespace coxswain::core
