// Decides when to report a wait: after a first period, and then at intervals. Time is passed in.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace coxswain::core {

class WaitNotice {
 public:
  // The wait begins or goes on; returns how long it has taken.
  absl::Duration Waits(absl::Duration now) {
    if (!since_) since_ = now;
    return now - *since_;
  }
  // The wait is over.
  void Over() { since_ = said_ = std::nullopt; }
  // `time` of the wait does not count.
  void Discount(absl::Duration time) {
    if (since_) *since_ += time;
  }
  // Whether to report the wait now: first when it has taken `after`, then every `again`.
  bool Say(absl::Duration now, absl::Duration after, absl::Duration again) {
    if (said_ ? now - *said_ < again : Waits(now) < after) return false;
    said_ = now;
    return true;
  }

 private:
  std::optional<absl::Duration> since_, said_;
};

}  // namespace coxswain::core
