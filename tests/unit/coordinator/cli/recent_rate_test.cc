#include "coordinator/cli/recent_rate.h"

#include <catch2/catch.hpp>

namespace coxswain::cli {
namespace {

TEST_CASE("the rate that is shown is that of the last seconds, not of all the training") {
  RecentRate recent;
  // A job that goes on: an hour at 10 steps a second lies behind it.
  CHECK_FALSE(recent.Add({3600, 36000, 360000}));
  for (int i = 1; i <= 200; ++i) {
    const auto [steps, examples] = *recent.Add({3600 + i * 0.1, 36000 + i * 5, 360000 + i * 500});
    CHECK(steps == Approx(50));
    CHECK(examples == Approx(5000));
  }
  // It stalls, and is seen to.
  const auto [steps, examples] = *recent.Add({3630, 37000, 460000});
  CHECK(steps < 1);
  CHECK(examples < 100);
}

TEST_CASE(
    "a stall of more than the window is a rate of nothing, and what comes then is measured anew") {
  RecentRate recent;
  recent.Add({0, 0, 0});
  recent.Add({1, 100, 1000});
  CHECK(recent.Add({60, 100, 1000})->examples == 0);
  CHECK(recent.Add({61, 200, 2000})->examples > 0);
}

}  // namespace
}  // namespace coxswain::cli
