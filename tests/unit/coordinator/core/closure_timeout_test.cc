// Closures that a worker, which the test plays, never answers while it answers pings.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>

#include "absl/strings/match.h"
#include "tests/testing/played_cluster.h"

namespace coxswain::core {
namespace {

using testing::CauseOf;
using testing::PlayedCluster;
using testing::PlayedTask;

RecoveryOptions Timeout(int most) {
  RecoveryOptions recovery;
  recovery.closure_timeout = absl::Milliseconds(100);
  recovery.most_timeouts = most;
  return recovery;
}

TEST_CASE("a closure that hangs on a worker that answers pings is cancelled and ends elsewhere",
          "[controller][timeout]") {
  PlayedCluster f(2, 1, Timeout(4));
  f.Schedule();
  const PlayedTask::Run hangs = f.workers[0]->runs.Take("the closure");
  f.workers[1]->answers = true;
  CHECK(f.answers.Take("the closure's end").ok());
  const proto::ControlRequest cancel = f.workers[0]->cancels.Take("the cancellation");
  REQUIRE(cancel.cancel_closures().closures_size() == 1);
  CHECK(cancel.cancel_closures().closures(0) == 1);
  const ClusterEvent event = f.timeouts.Take("the news");
  CHECK(event.task == "/job:worker/task:0");
  CHECK(absl::StrContains(event.message, "closure 1 within 100ms; it runs elsewhere"));
  hangs.Done();  // too late to count
  const Controller::Stats stats = f.Stats();
  CHECK(stats.failures.timeouts == 1);
  CHECK(stats.closures.completed == 1);
  CHECK(stats.closures.retried == 1);
  CHECK(stats.open == 0);
}

TEST_CASE("a closure that hangs wherever it runs ends with DeadlineExceeded",
          "[controller][timeout]") {
  PlayedCluster f(1, 2, Timeout(2));
  f.Schedule();
  f.workers[0]->runs.Take("the first attempt");
  CHECK(f.workers[0]->runs.Take("the second attempt").request.attempt == 2);
  const absl::Status ended = f.answers.Take("the closure's end");
  CHECK(ended.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(CauseOf(ended) == ErrorCause::kQuarantined);
  CHECK(absl::StrContains(ended.message(), "closure 1 was not done in time in 2 attempts"));
  CHECK(absl::StrContains(ended.message(), "/job:worker/task:0"));
  // Two in a row: the worker is set up anew, and then it may be good again.
  CHECK_FALSE(f.workers[0]->setups.Take("the first set-up").setup_worker().new_streams());
  f.workers[0]->answers = true;
  f.Schedule();
  CHECK(f.workers[0]->setups.Take("another set-up").setup_worker().new_streams());
  CHECK(f.answers.Take("the other closure's end").ok());
  CHECK(f.Stats().failures.quarantined == 1);
}

TEST_CASE("an attempt that took too long and ends well before the next one counts",
          "[controller][timeout]") {
  PlayedCluster f(1, 1, Timeout(4));
  f.Schedule();
  const PlayedTask::Run first = f.workers[0]->runs.Take("the first attempt");
  const PlayedTask::Run second = f.workers[0]->runs.Take("the second attempt");
  first.Done();
  CHECK(f.answers.Take("the closure's end").ok());
  second.Done();
  f.workers[0]->answers = true;
  f.Schedule();
  CHECK(f.answers.Take("the other closure's end").ok());
  CHECK(f.Stats().closures.completed == 2);
}

TEST_CASE("closures wait for one that is too far behind, and status says so",
          "[controller][timeout]") {
  RecoveryOptions recovery;
  recovery.max_window = 5;
  PlayedCluster f(1, 10, recovery);
  for (int i = 0; i < 10; ++i) f.Schedule();
  const PlayedTask::Run first = f.workers[0]->runs.Take("the first closure");
  for (int i = 0; i < 4; ++i) {
    f.workers[0]->runs.Take("one that may run").Done();
    CHECK(f.answers.Take("its end").ok());
  }
  CHECK(f.Stats().waiting_for == "closure 1 to end, which is too far behind the others");
  CHECK(f.workers[0]->runs.empty());
  f.workers[0]->answers = true;
  first.Done();
  for (int i = 0; i < 6; ++i) CHECK(f.answers.Take("the others' end").ok());
  CHECK(f.Stats().waiting_for == "");
}

ClosureSpec Until(const PlayedCluster& f, absl::Duration from_now) {
  ClosureSpec spec;
  spec.steps = 3;
  spec.deadline = f.env->Monotonic() + from_now;
  return spec;
}

TEST_CASE("a closure whose worker says nothing ends soon after its deadline, once",
          "[controller][timeout]") {
  PlayedCluster f(1, 1);
  f.Schedule(Until(f, absl::Milliseconds(50)));
  const PlayedTask::Run run = f.workers[0]->runs.Take("the closure");
  const proto::ControlRequest cancel = f.workers[0]->cancels.Take("the cancellation");
  REQUIRE(cancel.cancel_closures().closures_size() == 1);
  CHECK(cancel.cancel_closures().closures(0) == 1);
  const absl::Status ended = f.answers.Take("the closure's end");
  CHECK(ended.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(CauseOf(ended) == ErrorCause::kCancelled);
  run.Done();  // too late to count
  f.workers[0]->answers = true;
  f.Schedule();
  CHECK(f.answers.Take("the other closure's end").ok());
  CHECK(f.Stats().closures.completed == 1);
  CHECK(f.Stats().closures.failed == 1);
}

TEST_CASE("what a worker says of a closure after its deadline counts, if it says so at once",
          "[controller][timeout]") {
  PlayedCluster f(1, 2);
  f.Schedule(Until(f, absl::Milliseconds(50)));
  f.workers[0]->cancels.Take("the cancellation");
  f.workers[0]->runs.Take("the closure").Done();
  CHECK(f.answers.Take("its end").ok());
  f.Schedule(Until(f, absl::Milliseconds(50)));
  f.workers[0]->cancels.Take("the next cancellation");
  f.workers[0]
      ->runs.Take("the next closure")
      .End(WithDetail(absl::CancelledError("cancelled"), {ErrorCause::kCancelled, false, "", 0}),
           2);
  CHECK(f.answers.Take("its end").code() == absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("a closure is cancelled by its number, and no other is", "[controller]") {
  PlayedCluster f(1, 1);
  const auto number = std::make_shared<std::atomic<ClosureId>>(ClosureId(0));
  f.Schedule();
  const PlayedTask::Run first = f.workers[0]->runs.Take("the first closure");
  f.controller->Schedule(
      {}, [&f](auto results) { f.answers.Put(results.status()); }, number);
  f.Schedule();
  f.controller->CancelClosure(number);
  CHECK(f.answers.Take("the second one's end").code() == absl::StatusCode::kCancelled);
  CHECK(number->load() == 2);
  f.controller->CancelClosure(number);  // it is over
  f.workers[0]->answers = true;
  first.Done();
  CHECK(f.answers.Take("the first one's end").ok());
  CHECK(f.answers.Take("the third one's end").ok());
  CHECK(f.workers[0]->cancels.empty());
}

}  // namespace
}  // namespace coxswain::core
