#include "coordinator/core/long_waits.h"

#include <catch2/catch.hpp>

namespace coxswain::core {
namespace {

using Stall = LongWaits::Stall;

constexpr absl::Duration kMost = absl::Minutes(1);

absl::Duration At(int seconds) { return absl::Seconds(100 + seconds); }

TEST_CASE("a stall is said after a while, now and then, and comes to an end", "[waits]") {
  LongWaits waits;
  CHECK(waits.Stalled(At(0), kMost) == Stall::kQuiet);
  CHECK(waits.Stalled(At(4), kMost) == Stall::kQuiet);
  CHECK(waits.Stalled(At(5), kMost) == Stall::kSay);
  CHECK(waits.Stalled(At(34), kMost) == Stall::kQuiet);
  CHECK(waits.Stalled(At(35), kMost) == Stall::kSay);
  CHECK(waits.Stalled(At(60), kMost) == Stall::kTooLong);
  CHECK(waits.stalled_for(At(60)) == kMost);
  waits.NotStalled();
  CHECK(waits.Stalled(At(61), kMost) == Stall::kQuiet);
}

TEST_CASE("time in which this process stood still is no stall", "[waits]") {
  LongWaits waits;
  CHECK(waits.Stalled(At(0), kMost) == Stall::kQuiet);
  waits.Discount(absl::Minutes(10));
  CHECK(waits.Stalled(At(600 + 4), kMost) == Stall::kQuiet);
  CHECK(waits.Stalled(At(600 + 5), kMost) == Stall::kSay);
}

TEST_CASE("a slow checkpoint is said each minute, one that is not slow never", "[waits]") {
  LongWaits waits;
  CHECK_FALSE(waits.SayCheckpoint(absl::Seconds(59), At(0)));
  CHECK(waits.SayCheckpoint(absl::Seconds(60), At(1)));
  CHECK_FALSE(waits.SayCheckpoint(absl::Seconds(119), At(60)));
  CHECK(waits.SayCheckpoint(absl::Seconds(120), At(61)));
  CHECK_FALSE(waits.SayCheckpoint(absl::ZeroDuration(), At(62)));
  CHECK(waits.SayCheckpoint(absl::Seconds(60), At(63)));  // the next one
}

TEST_CASE("that one closure holds up all others is said on its own", "[waits]") {
  LongWaits waits;
  CHECK_FALSE(waits.SayHeldBack(true, At(0)));
  CHECK(waits.Stalled(At(5), kMost) == Stall::kQuiet);
  CHECK(waits.SayHeldBack(true, At(5)));
  CHECK_FALSE(waits.SayHeldBack(false, At(40)));
  CHECK_FALSE(waits.SayHeldBack(true, At(41)));
}

}  // namespace
}  // namespace coxswain::core
