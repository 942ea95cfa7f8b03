// Which of the coordinator's waits people hear of, and when: that nothing can run although closures
// wait, that a checkpoint takes long, that one closure holds up all others. Pure, time is passed
// in. Owned by the coordinator's loop.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "coordinator/core/wait_notice.h"

namespace coxswain::core {

class LongWaits {
 public:
  // A wait is said after the first and then every second of these.
  static constexpr absl::Duration kSayAfter = absl::Seconds(5), kSayAgain = absl::Seconds(30);
  static constexpr absl::Duration kSlowCheckpoint = absl::Minutes(1);

  enum class Stall : uint8_t {
    kQuiet,
    kSay,
    kTooLong  // than `most`
  };
  // Nothing can run, though something wants to.
  Stall Stalled(absl::Duration now, absl::Duration most) {
    if (stalled_.Waits(now) >= most) return Stall::kTooLong;
    return stalled_.Say(now, kSayAfter, kSayAgain) ? Stall::kSay : Stall::kQuiet;
  }
  absl::Duration stalled_for(absl::Duration now) { return stalled_.Waits(now); }
  void NotStalled() { stalled_.Over(); }
  // This process itself stood still: that was no wait for others.
  void Discount(absl::Duration time) { stalled_.Discount(time); }

  // The checkpoint under way has taken this long; zero: there is none. Whether to say so.
  bool SayCheckpoint(absl::Duration age, absl::Duration now) {
    if (age >= kSlowCheckpoint) return checkpoint_.Say(now, absl::ZeroDuration(), kSlowCheckpoint);
    checkpoint_.Over();
    return false;
  }
  // Whether one closure holds up all others, and whether to say so.
  bool SayHeldBack(bool held_back, absl::Duration now) {
    if (held_back) return held_back_.Say(now, kSayAfter, kSayAgain);
    held_back_.Over();
    return false;
  }

 private:
  WaitNotice stalled_, checkpoint_, held_back_;
};

}  // namespace coxswain::core
