#include "coordinator/core/ps_recovery.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::core {

void PsRecovery::Lost(int ps, absl::Duration now) {
  if (lost_.empty()) since_ = now;
  phase_ = Phase::kWaiting;
  lost_[ps] = {now, false, now};
  cannot_read_.erase(ps);
  no_room_.erase(ps);
  ending_.erase(ps);
}

void PsRecovery::AllAway(absl::Duration now) {
  if (!all_away_) all_away_ = now;
}

bool PsRecovery::OneThere(absl::Duration now) {
  if (!all_away_) return false;
  const absl::Duration since = *std::exchange(all_away_, std::nullopt);
  for (auto& [ps, task] : lost_) {
    if (!task.up) task.since += now - std::max(since, task.since);
  }
  return true;
}

void PsRecovery::Back(int ps) {
  const auto it = lost_.find(ps);
  if (it != lost_.end()) it->second.up = true;
}

bool PsRecovery::Intact(int ps) {
  lost_.erase(ps);
  if (!lost_.empty()) return false;
  phase_ = Phase::kRunning;
  return true;
}

bool PsRecovery::TimeIsOver(absl::Duration now) const {
  return phase_ == Phase::kWaiting &&
         std::all_of(lost_.begin(), lost_.end(), [&](const auto& lost) {
           return lost.second.up || now - lost.second.since >= patience();
         });
}

std::optional<PsRecovery::Decision> PsRecovery::Decide(absl::Duration now,
                                                       const std::set<int>& there) const {
  if (there.empty() || !TimeIsOver(now)) return std::nullopt;
  Decision decision;
  for (const auto& [ps, task] : lost_) {
    if (!task.up) decision.gone.insert(ps);
  }
  decision.there = there;
  for (const auto* cannot : {&cannot_read_, &no_room_}) {
    for (const auto& [ps, since] : *cannot) {
      if (now - since >= return_timeout_) decision.there.erase(ps);
    }
  }
  if (decision.there.empty()) decision.there = there;  // there is no better one
  std::set_difference(there.begin(), there.end(), decision.there.begin(), decision.there.end(),
                      std::inserter(decision.gone, decision.gone.end()));
  for (int ps : decision.there) {
    if (no_room_.count(ps) > 0) decision.full.insert(ps);
  }
  if (decision.full == decision.there) decision.full.clear();  // there is no better one
  return decision;
}

bool PsRecovery::Ending(int ps) {
  ending_.insert(ps);
  return ending_.size() == 1;
}

void PsRecovery::CannotRead(int ps, absl::Duration now) { cannot_read_.try_emplace(ps, now); }

absl::Duration PsRecovery::CannotReadFor(absl::Duration now) const {
  absl::Duration longest;
  for (const auto& [ps, since] : cannot_read_) longest = std::max(longest, now - since);
  return longest;
}

void PsRecovery::LostWhileTaking() {
  constexpr int kMostDoublings = 6;
  lost_while_taking_ = std::min(lost_while_taking_ + 1, kMostDoublings);
}

absl::Duration PsRecovery::NoRoom(const std::set<int>& ps, const std::set<int>& there,
                                  const std::string& why, absl::Duration now) {
  constexpr int kMostDoublings = 5;
  for (int refusing : ps) no_room_.try_emplace(refusing, now);
  why_no_room_ = why;
  if (std::all_of(there.begin(), there.end(), [&](int one) { return no_room_.count(one) > 0; })) {
    no_room_.clear();
    LostWhileTaking();
  }
  return absl::Seconds(1 << std::min(refused_++, kMostDoublings));
}

absl::Duration PsRecovery::Deadline() const {
  absl::Duration last = since_;
  for (const auto& [ps, task] : lost_) {
    if (!task.up) last = std::max(last, task.since + patience());
  }
  return last;
}

void PsRecovery::Begin() {
  phase_ = Phase::kRestoring;
  begun_ = true;
}

void PsRecovery::Move(absl::Duration now) {
  since_ = now;
  begun_ = true;
  phase_ = Phase::kMoving;
}

void PsRecovery::Again() { phase_ = Phase::kWaiting; }

void PsRecovery::Finish() {
  phase_ = Phase::kRunning;
  begun_ = false;
  lost_.clear();
  cannot_read_.clear();
  no_room_.clear();
  why_no_room_.clear();
  refused_ = 0;
  lost_while_taking_ = 0;
}

std::string PsRecovery::ToString(absl::Duration now) const {
  std::string text;
  for (const auto& [ps, task] : lost_) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "/job:ps/task:", ps,
                    task.up ? " (back, to be filled)"
                            : absl::StrCat(" (lost ",
                                           absl::FormatDuration(absl::Floor(now - task.since,
                                                                            absl::Milliseconds(1))),
                                           " ago)"));
  }
  if (!why_no_room_.empty()) absl::StrAppend(&text, text.empty() ? "" : "; ", why_no_room_);
  return text;
}

}  // namespace coxswain::core
