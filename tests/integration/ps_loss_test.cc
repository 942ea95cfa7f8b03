// Parameter servers that are killed while a program runs: it notices lost time, and nothing else.
#include <signal.h>

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/checkpoint.h"
#include "tests/integration/counting_job.h"

namespace coxswain {
namespace {

ClusterOptions WithPolicy(PsLossPolicy policy, absl::Duration return_timeout = absl::Seconds(20)) {
  ClusterOptions options;
  options.recovery.on_ps_loss = policy;
  options.recovery.ps_return_timeout = return_timeout;
  return options;
}

void Must(const absl::Status& status) {
  INFO(status);
  REQUIRE(status.ok());
}

CheckpointOptions Every(const DataFiles& files, absl::Duration interval) {
  CheckpointOptions options;
  options.directory = files.Path("checkpoints");
  options.every = interval;
  return options;
}

// Kills a PS in the middle of the steps, restarts it, and expects that nobody can tell.
void KillPsAndGoOn(PsLossPolicy policy, bool checkpoints) {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const Cluster cluster = Connect(daemons, WithPolicy(policy));
  CountingJob job(cluster);
  CheckpointManager manager(Every(files, absl::Milliseconds(50)));
  if (checkpoints) Must(manager.Start(cluster));
  job.Schedule(1500);
  if (checkpoints) Must(manager.Save());
  job.Schedule(500);
  const RemoteValue before = job.last();
  daemons.ps(1).Kill(SIGKILL);
  job.Schedule(1000);
  daemons.RestartPs(1);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
  CHECK(before.Get().ok());
  job.Schedule(200);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
}

TEST_CASE("a lost PS comes back from the checkpoint, and the closures since run again",
          "[ps_loss]") {
  KillPsAndGoOn(PsLossPolicy::kRollback, /*checkpoints=*/true);
}

TEST_CASE("only the lost shards go back under replay, and nothing is applied twice", "[ps_loss]") {
  KillPsAndGoOn(PsLossPolicy::kReplay, /*checkpoints=*/true);
}

TEST_CASE("without a checkpoint all steps run again from the initial values", "[ps_loss]") {
  KillPsAndGoOn(PsLossPolicy::kRollback, /*checkpoints=*/false);
}

TEST_CASE("the shards of a PS that does not come back move to the others", "[ps_loss]") {
  const DataFiles files;
  Daemons daemons(files, 3, 2);
  const auto policy = GENERATE(PsLossPolicy::kRollback, PsLossPolicy::kReplay);
  const Cluster cluster = Connect(daemons, WithPolicy(policy, absl::Milliseconds(300)));
  CountingJob job(cluster);
  CheckpointManager manager(Every(files, absl::Milliseconds(200)));
  Must(manager.Start(cluster));
  job.Schedule(1500);
  daemons.ps(0).Kill(SIGKILL);
  job.Schedule(500);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
  // It comes back as a spare, and serves when another one goes.
  daemons.RestartPs(0);
  daemons.ps(1).Kill(SIGKILL);
  job.Schedule(500);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
}

// Tells of lost parameter servers.
class Losses {
 public:
  // A job that stands still because of them ends soon.
  void CountIn(ClusterOptions* options) {
    options->recovery.cluster_timeout = absl::Seconds(30);
    options->on_event = [this](const ClusterEvent& e) {
      absl::MutexLock lock(&mu_);
      lost_ += e.kind == ClusterEvent::Kind::kPsLost;
      back_ += e.kind == ClusterEvent::Kind::kPsBack;
      waits_ |= e.kind == ClusterEvent::Kind::kWaiting;
    };
  }
  // Until the job says that it waits for them.
  bool WaitLong() {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&waits_), absl::Seconds(60));
  }
  // Those that came back with all that they had.
  int back() {
    absl::MutexLock lock(&mu_);
    return back_;
  }
  bool Wait(int lost) {
    const auto reached = [&] { return lost_ >= lost; };
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&reached), absl::Seconds(60));
  }

 private:
  absl::Mutex mu_;
  int lost_ = 0, back_ = 0;
  bool waits_ = false;
};

// Waits until this PS answers.
bool Answers(const Cluster& cluster, int ps) {
  for (const absl::Time end = absl::Now() + absl::Seconds(60); absl::Now() < end;) {
    for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
      if (task.job() == "ps" && task.task() == ps) return true;
    }
  }
  return false;
}

TEST_CASE("shards move to a PS that was given up, when it comes back later than the last one went",
          "[ps_loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 1);
  // Nobody waits for a PS that is lost: not for as long as a process takes to start.
  ClusterOptions options = WithPolicy(PsLossPolicy::kRollback, absl::Milliseconds(1));
  Losses losses;
  losses.CountIn(&options);
  const Cluster cluster = Connect(daemons, options);
  CountingJob job(cluster);
  CheckpointManager manager(Every(files, absl::Milliseconds(200)));
  Must(manager.Start(cluster));
  daemons.ps(0).Kill(SIGKILL);
  job.Schedule(300);
  Must(job.coordinator().Join());
  daemons.ps(1).Kill(SIGKILL);  // for good
  REQUIRE(losses.Wait(2));
  job.Schedule(300);
  daemons.RestartPs(0);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
}

TEST_CASE("a PS that is back with all that it had ends the wait of another that is back without",
          "[ps_loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 1);
  ClusterOptions options = WithPolicy(PsLossPolicy::kRollback, absl::Minutes(10));
  Losses losses;
  losses.CountIn(&options);
  const Cluster cluster = Connect(daemons, options);
  CountingJob job(cluster);
  CheckpointManager manager(Every(files, absl::Milliseconds(200)));
  Must(manager.Start(cluster));
  job.Schedule(300);
  daemons.ps(0).Kill(SIGSTOP);
  REQUIRE(losses.Wait(1));
  daemons.ps(1).Kill(SIGKILL);
  REQUIRE(losses.Wait(2));
  daemons.RestartPs(1);
  REQUIRE(Answers(cluster, /*ps=*/1));  // it is the first that is back
  daemons.ps(0).Kill(SIGCONT);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
}

TEST_CASE(
    "parameter servers that nobody could reach for long come back one by one with all they had",
    "[ps_loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 1);
  // It is over when the job says that it waits, 5 s after the loss.
  ClusterOptions options = WithPolicy(PsLossPolicy::kRollback, absl::Seconds(3));
  Losses losses;
  losses.CountIn(&options);
  const Cluster cluster = Connect(daemons, options);
  CountingJob job(cluster);
  job.Schedule(300);
  for (int ps = 0; ps < 2; ++ps) daemons.ps(ps).Kill(SIGSTOP);
  REQUIRE(losses.Wait(2));
  REQUIRE(losses.WaitLong());
  daemons.ps(0).Kill(SIGCONT);
  REQUIRE(Answers(cluster, /*ps=*/0));
  daemons.ps(1).Kill(SIGCONT);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
  CHECK(losses.back() == 2);
  const ClusterStats stats = cluster.Stats();
  CHECK(stats.failures.closures_rerun == 0);
  CHECK(stats.failures.recovered == 2);
}

TEST_CASE("two PS and a worker that are lost at once are no special case", "[ps_loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const Cluster cluster = Connect(daemons, WithPolicy(PsLossPolicy::kRollback));
  CountingJob job(cluster);
  CheckpointManager manager(Every(files, absl::Milliseconds(100)));
  Must(manager.Start(cluster));
  job.Schedule(2000);
  daemons.ps(0).Kill(SIGKILL);
  daemons.ps(1).Kill(SIGKILL);
  daemons.worker(0).Kill(SIGKILL);
  job.Schedule(500);
  daemons.RestartPs(1);
  daemons.RestartPs(0);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
}

TEST_CASE("a frozen PS that thaws in time has lost nothing", "[ps_loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const Cluster cluster = Connect(daemons, WithPolicy(PsLossPolicy::kRollback));
  CountingJob job(cluster);
  job.Schedule(1000);
  daemons.ps(0).Kill(SIGSTOP);
  job.Schedule(500);
  daemons.ps(0).Kill(SIGCONT);
  Must(job.coordinator().Join());
  job.CheckAppliedOnce();
}

TEST_CASE("what was assigned before the first checkpoint survives the loss of its PS",
          "[ps_loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const Cluster cluster = Connect(daemons, WithPolicy(PsLossPolicy::kRollback));
  CountingJob job(cluster);
  ParameterServerStrategy& strategy = job.strategy();
  auto start = strategy.CreateTable("start", {.rows = 6, .dim = 1});
  REQUIRE(start.ok());
  const Tensor warm = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{6, 1}).value();
  Must(strategy.Assign(*start, warm));  // a warm start
  CheckpointManager manager(Every(files, absl::Milliseconds(100)));
  Must(manager.Start(cluster));
  for (int loss = 0; loss < 2; ++loss) {
    job.Schedule(500);
    Must(manager.Save());
    daemons.ps(loss).Kill(SIGKILL);
    job.Schedule(500);
    daemons.RestartPs(loss);
    Must(job.coordinator().Join());
  }
  const auto found = strategy.Read(*start);
  REQUIRE(found.ok());
  for (int64_t r = 0; r < 6; ++r) CHECK(found->data<float>()[r] == warm.data<float>()[r]);
}

// Each step can run again, but nobody knows between which of them a value was assigned.
TEST_CASE("the loss of any PS ends a program that has assigned what no checkpoint has",
          "[ps_loss]") {
  const DataFiles files;
  Daemons daemons(files, 2, 1);
  const Cluster cluster = Connect(daemons, WithPolicy(PsLossPolicy::kRollback));
  CountingJob job(cluster);
  job.Schedule(100);
  Must(job.coordinator().Join());
  const auto rate = job.strategy().CreateVariable("rate", {.shape = Shape{}});
  REQUIRE(rate.ok());
  Must(job.strategy().Assign(*rate, Tensor::Scalar<float>(0.5f)));
  daemons.ps(rate->info().shards[0].ps() == 0 ? 1 : 0).Kill(SIGKILL);  // it has no part of it
  daemons.RestartPs(rate->info().shards[0].ps() == 0 ? 1 : 0);
  job.Schedule(100);
  const absl::Status lost = job.coordinator().Join();
  INFO(lost);
  CHECK(absl::IsDataLoss(lost));
  CHECK(absl::StrContains(lost.message(),
                          " of variable 'rate' was assigned a value that is in no checkpoint; "
                          "checkpoints bring them back"));
}

}  // namespace
}  // namespace coxswain
