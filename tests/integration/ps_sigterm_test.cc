// Parameter servers that are asked to end: what they have is in a checkpoint before they go.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/time/clock.h"
#include "coxswain/checkpoint.h"
#include "tests/integration/counting_job.h"
#include "tests/integration/jobs.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/paths.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

void Must(const absl::Status& status) {
  INFO(status);
  REQUIRE(status.ok());
}

ClusterOptions Patient() {
  ClusterOptions options;
  options.recovery.ps_return_timeout = absl::Seconds(60);
  return options;
}

CheckpointOptions NotByTime(const DataFiles& files) {
  CheckpointOptions options;
  options.directory = files.Path("checkpoints");
  options.every = absl::ZeroDuration();
  return options;
}

// A job on two parameter servers, whose checkpoints are only those that somebody asks for.
struct WithCheckpoints {
  explicit WithCheckpoints(int workers) : daemons(files, 2, workers) {
    Must(manager.Start(cluster));
  }

  const DataFiles files;
  Daemons daemons;
  const Cluster cluster = Connect(daemons, Patient());
  CountingJob job{cluster};
  CheckpointManager manager{NotByTime(files)};
};

TEST_CASE("a parameter server that gets SIGTERM goes once a checkpoint has what it has",
          "[sigterm]") {
  WithCheckpoints with(/*workers=*/2);
  Daemons& daemons = with.daemons;
  CountingJob& job = with.job;
  job.Schedule(2000);
  Must(job.coordinator().Join());
  for (const int signal : {SIGTERM, SIGINT}) {
    daemons.ps(1).Kill(signal);
    CHECK(daemons.ps(1).Wait().code == 0);
    daemons.RestartPs(1);
    job.Schedule(100);
    Must(job.coordinator().Join());
    job.CheckAppliedOnce();
  }
  const ClusterStats stats = with.cluster.Stats();
  CHECK(stats.checkpoints.written == 2);
  CHECK(stats.failures.ps_lost == 2);
  CHECK(stats.failures.closures_rerun == 0);
}

TEST_CASE("a parameter server that gets SIGTERM while the disk is full for a time is saved, too",
          "[sigterm]") {
  const DataFiles files;
  const TinyDisk disk(files.Path("checkpoints"), "1m");
  if (!disk.mounted()) return;
  Daemons daemons(files, 2, 1);
  const Cluster cluster = Connect(daemons, Patient());
  CountingJob job{cluster};
  CheckpointManager manager{NotByTime(files)};
  Must(manager.Start(cluster));
  job.Schedule(500);
  Must(job.coordinator().Join());
  disk.Fill();
  daemons.ps(1).Kill(SIGTERM);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (cluster.Stats().checkpoints.failed == 0) REQUIRE(absl::Now() < deadline);
  std::filesystem::remove(files.Path("checkpoints/filler"));
  CHECK(daemons.ps(1).Wait().code == 0);
  daemons.RestartPs(1);
  job.Schedule(100);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
  const ClusterStats stats = cluster.Stats();
  CHECK(stats.checkpoints.written == 1);
  CHECK(stats.failures.closures_rerun == 0);
}

TEST_CASE("all parameter servers at once that get SIGTERM in the middle of steps lose nothing",
          "[sigterm]") {
  WithCheckpoints with(/*workers=*/1);
  Daemons& daemons = with.daemons;
  CountingJob& job = with.job;
  job.Schedule(3000);
  for (int ps = 0; ps < 2; ++ps) daemons.ps(ps).Kill(SIGTERM);
  for (int ps = 0; ps < 2; ++ps) CHECK(daemons.ps(ps).Wait().code == 0);
  CHECK(with.cluster.Stats().checkpoints.written >= 1);
  for (int ps = 0; ps < 2; ++ps) daemons.RestartPs(ps);
  job.Schedule(500);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
}

TEST_CASE(
    "a parameter server that gets SIGTERM while another is away goes when that is back and saved",
    "[sigterm]") {
  WithCheckpoints with(/*workers=*/1);
  Daemons& daemons = with.daemons;
  CountingJob& job = with.job;
  job.Schedule(500);
  Must(job.coordinator().Join());
  daemons.ps(0).Kill(SIGKILL);
  daemons.ps(0).Wait();
  daemons.ps(1).Kill(SIGTERM);
  daemons.RestartPs(0);
  const Process::Result result = daemons.ps(1).Wait();
  CHECK(result.code == 0);
  CHECK_THAT(result.err, !Contains("has not said that it may"));
  CHECK(with.cluster.Stats().checkpoints.written == 1);
  daemons.RestartPs(1);
  job.Schedule(100);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
}

TEST_CASE("a parameter server of a job without checkpoints, or of none, goes at once",
          "[sigterm]") {
  const DataFiles files;
  Daemons daemons(files, 2, 1);
  daemons.ps(1).Kill(SIGTERM);  // nobody has connected
  CHECK(daemons.ps(1).Wait(absl::Seconds(10)).code == 0);
  daemons.RestartPs(1);
  const Cluster cluster = Connect(daemons, {});
  CountingJob job(cluster);
  job.Schedule(100);
  Must(job.coordinator().Join());
  daemons.ps(0).Kill(SIGTERM);
  CHECK(daemons.ps(0).Wait(absl::Seconds(10)).code == 0);
}

// One that is held by a coordinator which never answers.
std::unique_ptr<Process> Start(const std::string& seconds) {
  return std::make_unique<Process>(std::vector<std::string>{
      COXSWAIN_BINARY_DIR "/bin/coxswain-ps", "--port", "0", "--end-seconds", seconds});
}

TEST_CASE("a parameter server whose coordinator does not let it go ends when its time is over",
          "[sigterm]") {
  const auto ps = Start("1");
  const auto transport = WithSecret(net::NewGrpcTransport());
  testing::FakeCoordinator coordinator(transport.get(), AddressOf(*ps), /*epoch=*/3);
  ps->Kill(SIGTERM);
  const Process::Result result = ps->Wait(absl::Seconds(30));
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("has not said that it may, within 1s"));
}

TEST_CASE("a second signal ends a parameter server that waits for its coordinator", "[sigterm]") {
  const auto ps = Start("600");
  const auto transport = WithSecret(net::NewGrpcTransport());
  testing::FakeCoordinator coordinator(transport.get(), AddressOf(*ps), /*epoch=*/3);
  ps->Kill(SIGTERM);
  REQUIRE(ps->WaitForError("ending on signal 15"));
  ps->Kill(SIGTERM);
  CHECK(ps->Wait(absl::Seconds(30)).code == 0);
}

TEST_CASE("how long a parameter server may go on is a number of seconds", "[sigterm]") {
  for (const std::string wrong : {"-1", "x", "3601", "nan"}) {
    const auto result = Start(wrong)->Wait();
    CAPTURE(wrong, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("--end-seconds"));
  }
}

}  // namespace
}  // namespace coxswain
