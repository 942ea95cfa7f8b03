// When to tell people of a wait: after a while, and then now and then. Pure, time is passed in.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace coxswain::core {

class WaitNotice {
 public:
  // The wait goes on, or begins; returns how long it has taken.
  absl::Duration Waits(absl::Duration now) {
    if (!since_) since_ = now;
    return now - *since_;
  }
  // There is none any more.
  void Over() { since_ = said_ = std::nullopt; }
  // Some of the time was no wait.
  void Discount(absl::Duration time) {
    if (since_) *since_ += time;
  }
  // Whether it is to be said now: first when it has taken `after`, then every `again`.
  bool Say(absl::Duration now, absl::Duration after, absl::Duration again) {
    if (said_ ? now - *said_ < again : Waits(now) < after) return false;
    said_ = now;
    return true;
  }

 private:
  std::optional<absl::Duration> since_, said_;
};

}  // namespace coxswain::core
