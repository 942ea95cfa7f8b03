// Workers that are preempted at every point of a program's life: what they had runs elsewhere, and
// each step counts once.
#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/integration/fault_cluster.h"

namespace coxswain {
namespace {

using Kind = ClusterEvent::Kind;

ClusterOptions OneInFlight() {
  ClusterOptions options;
  options.closures_in_flight = 1;
  return options;
}

TEST_CASE("a worker that is preempted between functions costs nobody a retry", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob job(f.cluster);
  job.Schedule(200);
  MustBeOk(job.Join());
  f.LoseWorker(0);
  job.Schedule(200);
  MustBeOk(job.Join());
  CHECK(job.coordinator().stats().retried == 0);
  job.CheckAppliedOnce();
  f.ReturnWorker(0);
  f.ExpectToWork(0, &job);
  job.CheckAppliedOnce();
}

TEST_CASE("a function that is preempted between its steps goes on behind the last one elsewhere",
          "[fault]") {
  constexpr uint32_t kSteps = 3000;
  FaultCluster f(2, 2, OneInFlight());
  CountingJob job(f.cluster);
  job.SchedulePacked(2, kSteps);
  REQUIRE(job.AwaitApplied(kSteps));
  REQUIRE(job.completed() == 0);
  f.LoseWorker(0);
  MustBeOk(job.Join());
  CHECK(job.coordinator().stats().retried == 1);
  job.CheckAppliedOnce();
  // It had done half of them; only those since its last word were sent again.
  CHECK(job.DuplicatesDropped() < kSteps / 4);
}

TEST_CASE("a function that is preempted within a slow op runs again elsewhere", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob::Options slow;
  slow.slow = 3;
  CountingJob job(f.cluster, slow);
  // More than both workers have in flight several times over: worker 0 is not idle when it is lost.
  job.Schedule(24);
  REQUIRE(job.AwaitCompleted(1));
  f.LoseWorker(0);
  MustBeOk(job.Join());
  CHECK(job.coordinator().stats().retried >= 1);
  job.CheckAppliedOnce();
}

TEST_CASE("a worker that is preempted again and again comes back each time", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob::Options bounded;
  bounded.coordinator.queue_size = 64;
  CountingJob job(f.cluster, bounded);
  {
    Feeder feeder(&job);
    for (int round = 0; round < 6; ++round) {
      f.LoseWorker(0);
      f.ReturnWorker(0);
      REQUIRE(job.AwaitCompleted(job.completed() + 100));
    }
  }
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  CHECK(f.cluster.Stats().failures.workers_lost == 6);
  CHECK(f.cluster.Stats().failures.recovered == 6);
}

TEST_CASE("two workers that are preempted at once leave their work to the third", "[fault]") {
  FaultCluster f(2, 3);
  CountingJob job(f.cluster);
  job.Schedule(1500);
  REQUIRE(job.AwaitCompleted(100));
  f.KillWorker(0);
  f.KillWorker(1);
  f.Expect(Kind::kWorkerLost, f.Worker(0), 1);
  f.Expect(Kind::kWorkerLost, f.Worker(1), 1);
  MustBeOk(job.Join());
  CHECK(job.coordinator().stats().retried >= 1);
  job.CheckAppliedOnce();
  f.ReturnWorker(0);
  f.ReturnWorker(1);
  f.ExpectToWork(0, &job);
  f.ExpectToWork(1, &job);
  job.CheckAppliedOnce();
}

TEST_CASE("a cluster whose last worker is preempted waits for one to return", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob job(f.cluster);
  job.Schedule(1500);
  REQUIRE(job.AwaitCompleted(100));
  f.KillWorker(0);
  f.KillWorker(1);
  f.Expect(Kind::kWorkerLost, f.Worker(0), 1);
  f.Expect(Kind::kWorkerLost, f.Worker(1), 1);
  CHECK_FALSE(job.coordinator().Done());
  CHECK_THAT(f.cluster.Stats().waiting_for, Catch::Matchers::Contains("worker"));
  f.ReturnWorker(1);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
}

TEST_CASE("a worker that is asked to end hands its work on and ends with code 0", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob job(f.cluster);
  job.Schedule(1500);
  REQUIRE(job.AwaitCompleted(100));
  f.daemons.worker(0).Kill(SIGTERM);
  CHECK(f.daemons.worker(0).Wait().code == 0);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  CHECK(f.events.Count(Kind::kWorkerLost, f.Worker(0)) == 1);
}

TEST_CASE("a worker that hangs within a function and wakes up later adds nothing", "[fault]") {
  constexpr uint32_t kSteps = 2000;
  ClusterOptions options = OneInFlight();
  options.lease = absl::Milliseconds(700);
  FaultCluster f(2, 2, options);
  CountingJob job(f.cluster);
  job.SchedulePacked(2, kSteps);
  REQUIRE(job.AwaitApplied(kSteps / 2));
  f.daemons.worker(0).Kill(SIGSTOP);
  f.Expect(Kind::kWorkerLost, f.Worker(0), 1);
  MustBeOk(job.Join());
  CHECK(job.coordinator().stats().retried == 1);
  job.CheckAppliedOnce();
  f.daemons.worker(0).Kill(SIGCONT);
  f.Expect(Kind::kWorkerJoined, f.Worker(0), 1);
  f.ExpectToWork(0, &job);
  job.CheckAppliedOnce();
}

TEST_CASE("a closure that was cancelled does not wait for another worker", "[fault]") {
  ClusterOptions options;
  options.lease = absl::Seconds(20);
  FaultCluster f(1, 1, options);
  CountingJob job(f.cluster);
  job.Schedule(10);
  MustBeOk(job.Join());
  f.daemons.worker(0).Kill(SIGSTOP);
  job.Schedule(2);  // the worker has them, as far as the coordinator knows
  job.coordinator().Cancel();
  f.LoseWorker(0);
  CHECK(absl::IsCancelled(job.Join()));  // there is no worker any more
  CHECK(absl::IsCancelled(job.last().Get().status()));
  f.ReturnWorker(0);
  CHECK(job.ReadCounter() == 10);
}

// A step that is cancelled under way may have been applied or not; but never twice, and what comes
// after it is not touched.
TEST_CASE("cancellation while a worker is preempted ends what was scheduled and nothing else",
          "[fault]") {
  FaultCluster f(2, 2);
  CountingJob job(f.cluster);
  job.Schedule(3000);
  REQUIRE(job.AwaitCompleted(100));
  f.KillWorker(0);
  job.coordinator().Cancel();
  const absl::Status joined = job.Join();
  INFO(joined);
  CHECK(absl::IsCancelled(joined));
  CHECK(job.completed() < job.scheduled());
  CHECK(absl::IsCancelled(job.last().Get().status()));
  f.Expect(Kind::kWorkerLost, f.Worker(0), 1);
  f.ReturnWorker(0);

  const std::map<uint32_t, uint64_t> before = job.Applied();
  const int64_t counter = job.ReadCounter();
  for (const auto& [shard, applied] : before) {
    CAPTURE(shard);
    CHECK(applied >= static_cast<uint64_t>(job.completed()));
    CHECK(applied <= static_cast<uint64_t>(job.completed()) + 4);  // were in flight
  }
  job.Schedule(300);
  MustBeOk(job.Join());
  CHECK(job.ReadCounter() == counter + 300);
  for (const auto& [shard, applied] : job.Applied()) CHECK(applied == before.at(shard) + 300);
}

}  // namespace
}  // namespace coxswain
