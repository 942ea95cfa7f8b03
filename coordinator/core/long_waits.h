// Decides which of the coordinator's waits are reported to the user, and when: no closure can run
// although some wait, a checkpoint takes long, or one closure holds up all others. Does no I/O;
// time is passed in. Owned by the coordinator's loop.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "coordinator/core/wait_notice.h"

namespace coxswain::core {

class LongWaits {
 public:
  // A wait is reported after the first duration, and then at intervals of the second.
  static constexpr absl::Duration kSayAfter = absl::Seconds(5), kSayAgain = absl::Seconds(30);
  static constexpr absl::Duration kSlowCheckpoint = absl::Minutes(1);

  enum class Stall : uint8_t {
    kQuiet,
    kSay,
    kTooLong  // longer than `most`
  };
  // No closure can run, although some wait.
  Stall Stalled(absl::Duration now, absl::Duration most) {
    if (stalled_.Waits(now) >= most) return Stall::kTooLong;
    return stalled_.Say(now, kSayAfter, kSayAgain) ? Stall::kSay : Stall::kQuiet;
  }
  absl::Duration stalled_for(absl::Duration now) { return stalled_.Waits(now); }
  void NotStalled() { stalled_.Over(); }
  // This process itself stood still for `time`, which does not count as waiting.
  void Discount(absl::Duration time) { stalled_.Discount(time); }

  // Whether to report a checkpoint that has taken `age`; zero: there is none.
  bool SayCheckpoint(absl::Duration age, absl::Duration now) {
    if (age >= kSlowCheckpoint) return checkpoint_.Say(now, absl::ZeroDuration(), kSlowCheckpoint);
    checkpoint_.Over();
    return false;
  }
  // Whether to report that one closure holds up all others.
  bool SayHeldBack(bool held_back, absl::Duration now) {
    if (held_back) return held_back_.Say(now, kSayAfter, kSayAgain);
    held_back_.Over();
    return false;
  }

 private:
  WaitNotice stalled_, checkpoint_, held_back_;
};

}  // namespace coxswain::core
