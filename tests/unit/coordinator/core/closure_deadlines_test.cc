// How long a closure may take.
#include <catch2/catch.hpp>

#include "coordinator/core/closure_deadlines.h"

namespace coxswain::core {
namespace {

constexpr absl::Duration kSecond = ClosureDeadlines::kInterval;
constexpr PlanId kQuick = 1, kSlow = 2;

TEST_CASE("a closure may take many times what its function took, and never little", "[deadlines]") {
  DeadlineOptions options;
  ClosureDeadlines deadlines(options);
  CHECK(deadlines.Allowed(kQuick, 0) == options.first);
  deadlines.Measure(kQuick, absl::Milliseconds(10));
  CHECK(deadlines.Allowed(kQuick, 0) == options.least);  // a machine that is loaded trips nothing
  deadlines.Measure(kSlow, absl::Hours(1));              // a long kernel
  CHECK(deadlines.Allowed(kSlow, 0) == 20 * absl::Hours(1));
  deadlines.Measure(kSlow, absl::Minutes(1));
  CHECK(deadlines.Allowed(kSlow, 0) > 19 * absl::Hours(1));  // one that was quick means little
  for (int i = 0; i < 2000; ++i) deadlines.Measure(kSlow, absl::Milliseconds(1));
  CHECK(deadlines.Allowed(kSlow, 0) == options.least);
  CHECK(deadlines.Allowed(3, 0) == options.first);
}

TEST_CASE("what was too short is twice as long the next time, what was set stays", "[deadlines]") {
  DeadlineOptions options;
  ClosureDeadlines measured(options);
  CHECK(measured.Allowed(kQuick, 1) == 2 * options.first);
  CHECK(measured.Allowed(kQuick, 3) == 8 * options.first);
  CHECK(measured.Allowed(kQuick, 1000) < absl::InfiniteDuration());
  options.fixed = absl::Seconds(7);
  ClosureDeadlines fixed(options);
  fixed.Measure(kQuick, absl::Hours(1));
  CHECK(fixed.Allowed(kQuick, 0) == absl::Seconds(7));
  CHECK(fixed.Allowed(kQuick, 3) == absl::Seconds(7));
}

TEST_CASE("time in which the coordinator stood still is nobody's time", "[deadlines]") {
  ClosureDeadlines deadlines{DeadlineOptions()};
  absl::Duration now = absl::Hours(5);
  CHECK(deadlines.Clock(now) == absl::ZeroDuration());
  deadlines.Tick(now, true);
  for (int i = 0; i < 10; ++i) deadlines.Tick(now += kSecond, true);
  CHECK(deadlines.Clock(now) == 10 * kSecond);
  CHECK(deadlines.Clock(now + kSecond / 2) == 10.5 * kSecond);
  now += absl::Hours(3);  // Ctrl-Z
  CHECK(deadlines.Clock(now) <= 13 * kSecond);
  deadlines.Tick(now, true);
  const absl::Duration then = deadlines.Clock(now);
  CHECK(then <= 13 * kSecond);
  deadlines.Tick(now += kSecond, /*counts=*/false);  // a PS is lost
  deadlines.Tick(now += absl::Minutes(1), true);
  CHECK(deadlines.Clock(now) == then + kSecond);
  deadlines.Tick(now += kSecond, true);
  CHECK(deadlines.Clock(now) == then + 2 * kSecond);
}

}  // namespace
}  // namespace coxswain::core
