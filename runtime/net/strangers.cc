#include "runtime/net/strangers.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"

namespace coxswain::net {
namespace {

constexpr absl::Duration kSayAgain = absl::Seconds(10);

absl::Duration Monotonic() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

uint64_t Strangers::Enter(TurnAway turn_away) {
  TurnAway oldest;
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mu_);
    const absl::Duration now = Monotonic();
    if (strangers_.size() >= limits_.most) {
      const auto first = strangers_.begin();
      if (first == strangers_.end() || now - first->second.since < limits_.least) return 0;
      oldest = std::move(first->second.turn_away);
      strangers_.erase(first);
    }
    number = ++last_;
    strangers_.emplace(number, Stranger{now, std::move(turn_away)});
    SetTimer();
  }
  if (oldest) oldest("too many wait to be let in");
  return number;
}

bool Strangers::Leave(uint64_t number) {
  TurnAway dropped;  // after the lock
  absl::MutexLock lock(&mu_);
  const auto it = strangers_.find(number);
  if (it == strangers_.end()) return false;
  dropped = std::move(it->second.turn_away);
  strangers_.erase(it);
  return true;
}

void Strangers::SetTimer() {
  if (timer_set_ || strangers_.empty()) return;
  timer_set_ = true;
  const absl::Duration due = strangers_.begin()->second.since + limits_.patience;
  poller_->RunAfter(due - Monotonic(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->TurnAwayLate();
  });
}

void Strangers::TurnAwayLate() {
  std::vector<TurnAway> late;
  {
    absl::MutexLock lock(&mu_);
    timer_set_ = false;
    const absl::Duration now = Monotonic();
    while (!strangers_.empty() && now - strangers_.begin()->second.since >= limits_.patience) {
      late.push_back(std::move(strangers_.begin()->second.turn_away));
      strangers_.erase(strangers_.begin());
    }
    SetTimer();
  }
  for (const TurnAway& turn_away : late) {
    turn_away(absl::StrCat("no proof of the cluster's secret within ",
                           absl::FormatDuration(limits_.patience)));
  }
}

void Complaints::Say(absl::string_view peer, absl::string_view why) {
  int64_t silent = 0;
  {
    absl::MutexLock lock(&mu_);
    const absl::Duration now = Monotonic();
    if (said_some_ && now - said_ < kSayAgain) {
      ++unsaid_;
      return;
    }
    said_some_ = true;
    said_ = now;
    silent = std::exchange(unsaid_, 0);
  }
  LogWarning("refused ", peer, ": ", why,
             silent == 0 ? "" : absl::StrCat(" (and ", silent, " others before)"));
}

}  // namespace coxswain::net
