// From start to end, what is said of waits and of losses, and when a checkpoint is due.
#include <catch2/catch.hpp>
#include <vector>

#include "coordinator/core/checkpoint_schedule.h"
#include "coordinator/core/failure_log.h"
#include "coordinator/core/lifecycle.h"
#include "coordinator/core/wait_notice.h"

namespace coxswain::core {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

TEST_CASE("a coordinator starts, is about its shards, fails and ends", "[lifecycle]") {
  Lifecycle life;
  int told = 0;
  life.Begin([&told](const absl::Status&) { ++told; }, kNow);
  CHECK(life.phase(Phase::kRunning) == Phase::kStarting);
  CHECK(life.starting());
  CHECK(life.starting_for(kNow + absl::Seconds(2)) == absl::Seconds(2));
  life.EndStart(absl::OkStatus())(absl::OkStatus());
  CHECK(told == 1);
  CHECK_FALSE(life.starting());
  CHECK(life.started());
  CHECK(life.phase(Phase::kWaiting) == Phase::kWaiting);
  life.Fail(absl::InternalError("first"));
  life.Fail(absl::InternalError("second"));
  CHECK(life.failed().message() == "first");
  CHECK(life.phase(Phase::kWaiting) == Phase::kFailed);
  life.End();
  CHECK(life.phase(Phase::kWaiting) == Phase::kEnding);
  CHECK_FALSE(life.abandoned());
}

TEST_CASE("a start that failed is none", "[lifecycle]") {
  Lifecycle life;
  life.Begin([](const absl::Status&) {}, kNow);
  life.EndStart(absl::UnavailableError("nobody is there"));
  CHECK_FALSE(life.started());
  CHECK(life.phase(Phase::kRunning) == Phase::kStarting);
  life.Abandon(absl::CancelledError("over"));
  CHECK(life.abandoned());
  CHECK(life.phase(Phase::kRunning) == Phase::kEnding);
}

TEST_CASE("a wait is mentioned after a while and then now and then", "[lifecycle]") {
  WaitNotice wait;
  std::vector<int> said;
  for (int second = 0; second < 20; ++second) {
    const absl::Duration now = kNow + absl::Seconds(second);
    CHECK(wait.Waits(now) == absl::Seconds(second));
    if (wait.Say(now, absl::Seconds(3), absl::Seconds(8))) said.push_back(second);
  }
  CHECK(said == std::vector<int>{3, 11, 19});
  wait.Discount(absl::Seconds(5));
  CHECK(wait.Waits(kNow + absl::Seconds(20)) == absl::Seconds(15));
  wait.Over();
  CHECK(wait.Waits(kNow) == absl::ZeroDuration());
  CHECK_FALSE(wait.Say(kNow, absl::Seconds(3), absl::Seconds(8)));
}

TEST_CASE("each lost PS is recovered once, when closures run again", "[lifecycle]") {
  FailureLog log;
  for (int loss = 0; loss < 2; ++loss) {
    log.ShardsBack(1, kNow);
    log.ShardsBack(2, kNow + absl::Seconds(1));  // others, before a closure ran
    log.ClosuresRun(kNow + absl::Seconds(4));
    log.ClosuresRun(kNow + absl::Seconds(9));
  }
  CHECK(log.stats().recovered == 6);
  CHECK(log.stats().recovery_seconds == std::vector<double>{4, 4});
  log.TaskBack(absl::Seconds(2));
  CHECK(log.stats().recovered == 7);
}

TEST_CASE("a checkpoint is due by steps since the last one, and worth it if anything has changed",
          "[lifecycle]") {
  CheckpointSchedule schedule;
  schedule.Begun(10);
  CHECK_FALSE(schedule.DueBySteps(100, 0));
  CHECK_FALSE(schedule.DueBySteps(14, 5));
  CHECK(schedule.DueBySteps(15, 5));
  CHECK_FALSE(schedule.Worthwhile(10, false));
  CHECK(schedule.Worthwhile(10, true));
  CHECK(schedule.Worthwhile(11, false));
  const uint64_t timer = schedule.NewTimer();
  CHECK(schedule.IsCurrent(timer));
  schedule.NewTimer();
  CHECK_FALSE(schedule.IsCurrent(timer));
}

}  // namespace
}  // namespace coxswain::core
