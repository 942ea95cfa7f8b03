// Tasks that are killed while a job runs.
#include <signal.h>

#include <catch2/catch.hpp>

#include "absl/time/clock.h"
#include "coordinator/api/task_statuses.h"
#include "protos/control.pb.h"
#include "tests/integration/counting_job.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("every step is applied exactly once though a worker is killed", "[loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  CountingJob job(Connect(daemons));
  job.Schedule(1);
  REQUIRE(job.coordinator().Join().ok());
  job.Schedule(3000);
  daemons.worker(0).Kill(SIGKILL);
  job.Schedule(1000);
  REQUIRE(job.coordinator().Join().ok());
  CHECK(job.coordinator().stats().retried >= 1);
  job.CheckAppliedOnce();
}

TEST_CASE("every step is applied exactly once while workers are killed again and again", "[loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const Cluster cluster = Connect(daemons);
  CountingJob job(cluster);
  for (int round = 0; round < 4; ++round) {
    const int victim = round % 2;
    job.Schedule(500);
    daemons.worker(victim).Kill(SIGKILL);
    job.Schedule(500);
    REQUIRE(job.coordinator().Join().ok());
    daemons.RestartWorker(victim);
    // The restarted worker rejoins: it runs closures again.
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    uint64_t run = 0;
    while (run == 0 && absl::Now() < deadline) {
      job.Schedule(100);
      REQUIRE(job.coordinator().Join().ok());
      for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
        if (task.job() == "worker" && task.task() == victim) run = task.closures_run();
      }
    }
    CHECK(run > 0);
  }
  job.CheckAppliedOnce();
}

TEST_CASE("a worker that was frozen and thaws does no harm", "[loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  CountingJob job(Connect(daemons));
  job.Schedule(1);
  REQUIRE(job.coordinator().Join().ok());
  job.Schedule(500);
  daemons.worker(1).Kill(SIGSTOP);
  job.Schedule(500);
  // Its lease runs out, and the other one does its work.
  REQUIRE(job.coordinator().Join().ok());
  CHECK(job.coordinator().stats().retried >= 1);
  job.CheckAppliedOnce();
  daemons.worker(1).Kill(SIGCONT);
  job.Schedule(500);
  REQUIRE(job.coordinator().Join().ok());
  job.CheckAppliedOnce();
}

TEST_CASE("a job on the command line goes on when a worker is killed", "[loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const std::string report = files.Path("report.json");
  Process job(CoxswainCommand({"train", WriteMatrixFactorization(files), "--cluster",
                               daemons.cluster_file(), "--report", report, "--set",
                               "train.epochs=600", "--set", "evaluate.every_epochs=600"}));
  REQUIRE(job.WaitForOutput(" steps"));
  daemons.worker(1).Kill(SIGKILL);
  const auto result = job.Wait();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = ReadJson(report);
  // Whether it had closures just then is a matter of chance, so is `retried`.
  CHECK_THAT(result.err, Contains("/job:worker/task:1 is lost"));
  CHECK(json["closures"]["completed"] == json["steps"]);
  CHECK(json["examples"] ==
        600 * (600 - json["evaluated"]["examples"].get<int64_t>()));  // epochs x examples
}

TEST_CASE("a job on the command line goes on when a parameter server is lost and returns",
          "[loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const std::string report = files.Path("report.json");
  Process job(CoxswainCommand({"train", WriteMatrixFactorization(files), "--cluster",
                               daemons.cluster_file(), "--report", report, "--set",
                               "train.epochs=300", "--set", "evaluate.every_epochs=300"}));
  REQUIRE(job.WaitForOutput(" steps"));
  daemons.ps(1).Kill(SIGKILL);
  daemons.RestartPs(1);
  const auto result = job.Wait();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = ReadJson(report);
  CHECK_THAT(result.err, Contains("/job:ps/task:1"));
  CHECK(json["closures"]["completed"] == json["steps"]);
  CHECK(json["examples"] == 300 * (600 - json["evaluated"]["examples"].get<int64_t>()));
}

TEST_CASE("a program whose only parameter server stays away fails when the wait is over",
          "[loss]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1);
  ClusterOptions options;
  options.recovery.ps_return_timeout = absl::Milliseconds(300);
  options.recovery.cluster_timeout = absl::Seconds(2);
  CountingJob job(Connect(daemons, options));
  job.Schedule(2000);
  daemons.ps(0).Kill(SIGKILL);
  job.Schedule(500);
  const absl::Status joined = job.Join();
  REQUIRE_FALSE(joined.ok());
  CHECK_THAT(std::string(joined.message()), Contains("/job:ps/task:0"));
  // From now on closures fail at once.
  job.Schedule(1);
  CHECK_FALSE(job.Join().ok());
  CHECK_FALSE(job.last().Get().ok());
}

TEST_CASE("who waits for the state to settle waits out a lost PS, and not for ever", "[loss]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1);
  ClusterOptions options;
  options.recovery.ps_return_timeout = absl::Milliseconds(300);
  options.recovery.cluster_timeout = absl::Seconds(4);
  const Cluster cluster = Connect(daemons, options);
  const auto lost = [&](int64_t times) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (cluster.Stats().failures.ps_lost < times && absl::Now() < deadline) {
    }
    return cluster.Stats().failures.ps_lost == times;
  };
  CountingJob job(cluster);
  CHECK(cluster.WaitUntilSettled().ok());
  job.Schedule(500);
  REQUIRE(job.Join().ok());
  daemons.ps(0).Kill(SIGKILL);
  REQUIRE(lost(1));
  daemons.RestartPs(0);
  // All 500 run again; nobody schedules anything.
  CHECK(cluster.WaitUntilSettled().ok());
  CHECK(cluster.Stats().failures.closures_rerun == 500);
  job.CheckAppliedOnce();
  daemons.ps(0).Kill(SIGKILL);
  REQUIRE(lost(2));
  const absl::Status settled = cluster.WaitUntilSettled();
  REQUIRE_FALSE(settled.ok());
  CHECK_THAT(std::string(settled.message()), Contains("/job:ps/task:0"));
}

}  // namespace
}  // namespace coxswain
