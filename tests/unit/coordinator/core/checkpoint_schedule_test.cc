// When a checkpoint is due.
#include "coordinator/core/checkpoint_schedule.h"

#include <catch2/catch.hpp>

namespace coxswain::core {
namespace {

TEST_CASE("a checkpoint is due after a number of steps, once", "[checkpoint_schedule]") {
  CheckpointSchedule schedule;
  CHECK_FALSE(schedule.DueBySteps(99, 100));
  CHECK(schedule.DueBySteps(100, 100));
  schedule.Begun(104);  // it is decided, and begins soon
  CHECK_FALSE(schedule.DueBySteps(105, 100));
  CHECK(schedule.DueBySteps(204, 100));
  CHECK_FALSE(schedule.DueBySteps(1000, 0));  // not by steps
}

TEST_CASE("a checkpoint that was not written is worth another try, also without a further step",
          "[checkpoint_schedule]") {
  CheckpointSchedule schedule;
  CHECK_FALSE(schedule.Worthwhile(0, /*unsaved=*/false));
  CHECK(schedule.Worthwhile(0, /*unsaved=*/true));
  CHECK(schedule.Worthwhile(50, false));
  schedule.Begun(50);
  CHECK_FALSE(schedule.Worthwhile(50, false));
  schedule.Ended(/*written=*/false);
  CHECK(schedule.Worthwhile(50, false));
  CHECK_FALSE(schedule.DueBySteps(51, 100));  // a full disk is not asked with each step
  schedule.Begun(50);
  schedule.Ended(/*written=*/true);
  CHECK_FALSE(schedule.Worthwhile(50, false));
}

TEST_CASE("a new timer replaces the old one", "[checkpoint_schedule]") {
  CheckpointSchedule schedule;
  const uint64_t first = schedule.NewTimer();
  CHECK(schedule.IsCurrent(first));
  CHECK(schedule.IsCurrent(schedule.NewTimer()));
  CHECK_FALSE(schedule.IsCurrent(first));
}

}  // namespace
}  // namespace coxswain::core
