// Parameter servers that are preempted while the program waits, schedules, or saves.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <future>

#include "coxswain/checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/integration/fault_cluster.h"

namespace coxswain {
namespace {

using Kind = ClusterEvent::Kind;

CheckpointOptions InFolder(const FaultCluster& f, absl::Duration every) {
  CheckpointOptions options;
  options.directory = f.files.Path("checkpoints");
  options.every = every;
  return options;
}

// Waits until a checkpoint has begun and is not finished.
bool AwaitUnfinished(const std::string& directory) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (absl::Now() < deadline) {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().extension() == ".tmp") return true;
    }
  }
  return false;
}

std::future<absl::Status> JoinAside(CountingJob* job) {
  return std::async(std::launch::async, [job] { return job->Join(); });
}

TEST_CASE("a program that waits in Join notices a lost PS only as lost time", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob job(f.cluster);
  CheckpointManager checkpoints(InFolder(f, absl::Milliseconds(100)));
  MustBeOk(checkpoints.Start(f.cluster));
  job.Schedule(3000);
  auto joined = JoinAside(&job);
  REQUIRE(job.AwaitCompleted(500));
  f.LosePs(1);
  f.daemons.RestartPs(1);
  MustBeOk(joined.get());
  job.CheckAppliedOnce();
  CHECK(f.events.Count(Kind::kRecovered, "") == 1);
}

TEST_CASE("a Schedule that waits for room outlasts the loss of a PS", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob::Options small;
  small.coordinator.queue_size = 8;
  CountingJob job(f.cluster, small);
  CheckpointManager checkpoints(InFolder(f, absl::Milliseconds(100)));
  MustBeOk(checkpoints.Start(f.cluster));
  Feeder feeder(&job, 2000);
  REQUIRE(job.AwaitCompleted(300));
  f.LosePs(0);
  // Nothing completes now, so at most 8 closures could be scheduled: the feeder stands in Schedule.
  const DispatcherStats stats = job.coordinator().stats();
  CHECK(stats.scheduled <= stats.completed + 8);
  CHECK_FALSE(feeder.WaitUntil(absl::Now()));
  f.daemons.RestartPs(0);
  REQUIRE(feeder.WaitUntil(absl::Now() + absl::Seconds(60)));
  MustBeOk(job.Join());
  CHECK(job.scheduled() == 2000);
  job.CheckAppliedOnce();
}

TEST_CASE("a PS that is lost while a lost worker comes back is no special case", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob job(f.cluster);
  CheckpointManager checkpoints(InFolder(f, absl::Milliseconds(100)));
  MustBeOk(checkpoints.Start(f.cluster));
  job.Schedule(2500);
  REQUIRE(job.AwaitCompleted(300));
  f.LoseWorker(0);
  f.daemons.RestartWorker(0);
  f.LosePs(1);
  f.daemons.RestartPs(1);
  f.Expect(Kind::kRecovered, "", 1);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  f.ExpectToWork(0, &job);
  job.CheckAppliedOnce();
}

TEST_CASE("a worker that is lost while a PS is recovered is no special case", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob job(f.cluster);
  CheckpointManager checkpoints(InFolder(f, absl::Milliseconds(100)));
  MustBeOk(checkpoints.Start(f.cluster));
  job.Schedule(2500);
  REQUIRE(job.AwaitCompleted(300));
  f.LosePs(0);
  f.LoseWorker(1);
  f.daemons.RestartPs(0);
  f.daemons.RestartWorker(1);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  f.ExpectToWork(1, &job);
  job.CheckAppliedOnce();
}

// The PS is frozen first, so that the checkpoint is surely under way when it is killed.
TEST_CASE("a PS that is killed during a checkpoint leaves the last good one, and training goes on",
          "[fault]") {
  FaultCluster f(2, 2);
  CountingJob job(f.cluster);
  CheckpointManager checkpoints(InFolder(f, absl::ZeroDuration()));
  MustBeOk(checkpoints.Start(f.cluster));
  job.Schedule(500);
  MustBeOk(job.Join());
  MustBeOk(checkpoints.Save());
  job.Schedule(500);
  REQUIRE(job.AwaitCompleted(600));

  f.daemons.ps(1).Kill(SIGSTOP);
  auto saved = std::async(std::launch::async, [&] { return checkpoints.Save(); });
  CHECK(AwaitUnfinished(checkpoints.options().directory));
  f.LosePs(1);
  const absl::Status failed = saved.get();
  INFO(failed);
  CHECK(absl::IsUnavailable(failed));
  CHECK_FALSE(std::filesystem::exists(f.files.Path("checkpoints/checkpoint-000002")));
  CHECK(f.cluster.Stats().checkpoints.failed == 1);
  CheckpointManager good(checkpoints.options());
  MustBeOk(good.Find());
  REQUIRE(good.found());
  CHECK(good.manifest().number == 1);

  f.daemons.RestartPs(1);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  MustBeOk(checkpoints.Save());
  MustBeOk(good.Find());
  CHECK(good.manifest().number > 1);
  CHECK(good.manifest().steps == 1000);
}

}  // namespace
}  // namespace coxswain
