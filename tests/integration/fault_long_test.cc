// Preemptions without end.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/integration/fault_cluster.h"

namespace coxswain {
namespace {

using Kind = ClusterEvent::Kind;

// Resident memory of this process, the coordinator.
int64_t ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  int64_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_CASE("the coordinator's memory stays flat over 200 restarts of workers", "[fault]") {
  constexpr int kVictims = 10, kRounds = 20, kWarmRounds = 6;
  ClusterOptions options;
  // Ten workers go within milliseconds: a closure that met three of them would wait for calm.
  options.recovery.quarantine_after = 0;
  FaultCluster f(1, kVictims + 1, options);
  CountingJob job(f.cluster);
  const auto round = [&](int number) {
    const int64_t before = job.completed();
    job.Schedule(200);
    REQUIRE(job.AwaitCompleted(before + 20));
    for (int w = 0; w < kVictims; ++w) f.KillWorker(w);
    for (int w = 0; w < kVictims; ++w) f.Expect(Kind::kWorkerLost, f.Worker(w), number);
    for (int w = 0; w < kVictims; ++w) f.daemons.RestartWorker(w);
    for (int w = 0; w < kVictims; ++w) f.Expect(Kind::kWorkerJoined, f.Worker(w), number);
    MustBeOk(job.Join());
  };
  int number = 0;
  while (number < kWarmRounds) round(++number);
  const int64_t before = ResidentBytes();
  while (number < kRounds) round(++number);
  const int64_t growth = ResidentBytes() - before;
  job.CheckAppliedOnce();
  CHECK(f.cluster.Stats().failures.workers_lost == kVictims * kRounds);
  // 140 restarts: less than 50 KB each would still be a leak that nobody notices in weeks.
  CAPTURE(before, growth);
  CHECK(growth < 7 << 20);
}

TEST_CASE("ten workers of eleven that are lost at once are no closure's fault", "[fault]") {
  constexpr int kVictims = 10;
  FaultCluster f(1, kVictims + 1);
  CountingJob job(f.cluster);
  job.Schedule(400);
  REQUIRE(job.AwaitCompleted(20));
  for (int w = 0; w < kVictims; ++w) f.KillWorker(w);
  for (int w = 0; w < kVictims; ++w) f.Expect(Kind::kWorkerLost, f.Worker(w), 1);
  MustBeOk(job.Join());  // those that met several of them wait for calm
  job.CheckAppliedOnce();
  CHECK(f.cluster.Stats().failures.quarantined == 0);
}

// 1 worker of 4 is killed and started again each second.
void RestartEverySecond(int seconds) {
  FaultCluster f(2, 4);
  CountingJob::Options bounded;
  bounded.coordinator.queue_size = 64;
  CountingJob job(f.cluster, bounded);
  {
    Feeder feeder(&job);
    REQUIRE(job.AwaitCompleted(100));
    absl::Time next = absl::Now();
    for (int second = 0; second < seconds; ++second) {
      const int victim = second % 4;
      const int64_t before = job.completed();
      f.LoseWorker(victim);
      // The other three go on: they do not wait for its return.
      REQUIRE(job.AwaitCompleted(before + 100, absl::Seconds(20)));
      f.ReturnWorker(victim);
      next = std::max(next + absl::Seconds(1), absl::Now());
      REQUIRE_FALSE(feeder.WaitUntil(next));
    }
  }
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  const FailureStats failures = f.cluster.Stats().failures;
  CHECK(failures.workers_lost == seconds);
  CHECK(failures.recovered == seconds);
  for (int w = 0; w < 4; ++w) f.ExpectToWork(w, &job);
}

TEST_CASE("one worker of four that restarts every second for 10 s costs no update", "[fault]") {
  RestartEverySecond(10);
}

TEST_CASE("one worker of four that restarts every second for a minute costs no update",
          "[.soak][fault]") {
  RestartEverySecond(60);
}

}  // namespace
}  // namespace coxswain
