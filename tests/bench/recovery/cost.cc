#include "tests/bench/recovery/cost.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/local/local_tasks.h"
#include "coxswain/checkpoint.h"
#include "coxswain/cluster_coordinator.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/ledger.h"
#include "tests/bench/recovery/fire.h"
#include "tests/bench/step/step_function.h"

namespace coxswain {
namespace {

double Seconds(absl::Duration d) { return absl::ToDoubleSeconds(d); }

// One job on a cluster of its own.
class Job {
 public:
  absl::Status Start(const CostBench& bench, bool log) {
    ClusterOptions options;
    options.closures_in_flight = bench.in_flight;
    options.threads = bench.threads;
    if (!log) options.recovery.max_log_closures = 0;
    ASSIGN_OR_RETURN(const Cluster cluster, StartCluster(bench, options));
    strategy_.emplace(cluster, ParameterServerStrategy::Options{.device = bench.device});
    ASSIGN_OR_RETURN(step_, DefineStep(bench.shape, &*strategy_));
    CoordinatorOptions bounded;
    bounded.queue_size = 100;
    coordinator_.emplace(*strategy_, bounded);
    return Train(1.5).status();
  }
  // Steps a second over about `seconds` seconds, in which so many workers are killed, and started
  // again at once.
  absl::StatusOr<double> Train(double seconds, int kills = 0) {
    const absl::Time begin = absl::Now();
    int64_t steps = 0;
    std::thread feeder([&] {
      for (; absl::Now() - begin < absl::Seconds(seconds); ++steps) coordinator_->Schedule(step_);
    });
    absl::Status killed;
    for (int kill = 0; kill < kills && killed.ok(); ++kill) {
      absl::SleepFor(begin + absl::Seconds(seconds * (kill + 0.5) / kills) - absl::Now());
      killed = KillNext();
    }
    feeder.join();
    RETURN_IF_ERROR(killed);
    RETURN_IF_ERROR(coordinator_->Join());
    scheduled_ += steps;
    return static_cast<double>(steps) / Seconds(absl::Now() - begin);
  }
  const Cluster& cluster() const { return strategy_->cluster(); }
  int64_t scheduled() const { return scheduled_; }
  int64_t kills() const { return kills_; }
  int64_t retried() const { return static_cast<int64_t>(coordinator_->stats().retried); }
  // Of the shard that is farthest from `scheduled`; counts the shards.
  int64_t Applied(int64_t* shards) const {
    int64_t farthest = scheduled_;
    for (const proto::TaskStatus& task : TaskStatuses(cluster())) {
      for (const proto::ShardStatus& shard : task.shards()) {
        ++*shards;
        const int64_t applied = static_cast<int64_t>(shard.updates_applied());
        if (std::abs(applied - scheduled_) > std::abs(farthest - scheduled_)) farthest = applied;
      }
    }
    return farthest;
  }

 private:
  // Of daemons that this can kill, where it is to do so.
  absl::StatusOr<Cluster> StartCluster(const CostBench& bench, ClusterOptions options) {
    if (bench.kills == 0) {
      return Cluster::Local(bench.cluster.ps, bench.cluster.workers, options);
    }
    ASSIGN_OR_RETURN(const std::string directory, local::ProgramDirectory());
    const int threads =
        bench.threads > 0 ? bench.threads : local::ThreadsPerWorker(bench.cluster.workers);
    ASSIGN_OR_RETURN(
        FireDaemons daemons,
        FireDaemons::Start(bench.cluster.ps, bench.cluster.workers, threads, directory));
    daemons_.emplace(std::move(daemons));
    options.insecure = true;
    options.recovery.cluster_timeout = absl::Seconds(60);
    return Cluster::Connect(daemons_->config(), options);
  }
  // Each worker in its turn.
  absl::Status KillNext() {
    const int worker = static_cast<int>(kills_++ % strategy_->cluster().num_workers());
    RETURN_IF_ERROR(daemons_->KillWorker(worker));
    return daemons_->RestartWorker(worker);
  }

  std::optional<FireDaemons> daemons_;
  std::optional<ParameterServerStrategy> strategy_;
  RemoteFunction step_;
  std::optional<ClusterCoordinator> coordinator_;
  int64_t scheduled_ = 0;
  int64_t kills_ = 0;
};

// Microseconds that a ledger takes for one update, its trimming included.
double LedgerMicroseconds() {
  constexpr ClosureId kUpdates = 2'000'000, kOpen = 100;
  checkpoint::Ledger ledger;
  const absl::Time begin = absl::Now();
  for (ClosureId closure = 1; closure <= kUpdates; ++closure) {
    ledger.Insert(closure, 0, 1);
    // Pings bring the mark, a few for each lease.
    if (closure % kOpen == 0) ledger.SetLowWater(closure - kOpen / 2);
  }
  return 1e6 * Seconds(absl::Now() - begin) / static_cast<double>(kUpdates);
}

}  // namespace

absl::StatusOr<CostFigures> MeasureCost(const CostBench& bench) {
  CostFigures f;
  Job with, without;
  RETURN_IF_ERROR(with.Start(bench, /*log=*/true));
  RETURN_IF_ERROR(without.Start(bench, /*log=*/false));
  CheckpointOptions options;
  options.directory = absl::StrCat(bench.checkpoints, "/cost");
  options.begin_anew = true;  // a run that was killed has left its own there
  options.every = absl::Seconds(bench.every);
  if (bench.whole) options.max_deltas = 0;
  CheckpointManager manager(options);
  RETURN_IF_ERROR(manager.Start(with.cluster()));
  // The first one finds cold files, and only the third has one to build on.
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(manager.Save());
  CheckpointStats timed;
  for (int turn = 0; turn < bench.turns; ++turn) {
    const CheckpointStats before = with.cluster().Stats().checkpoints;
    ASSIGN_OR_RETURN(const double rate, with.Train(bench.seconds, bench.kills));
    const CheckpointStats after = with.cluster().Stats().checkpoints;
    f.with.push_back(rate);
    timed.written += after.written - before.written;
    timed.seconds += after.seconds - before.seconds;
    timed.stall_seconds += after.stall_seconds - before.stall_seconds;
    timed.bytes += after.bytes - before.bytes;
    // So that its timer finds nothing to save while the other one runs.
    RETURN_IF_ERROR(manager.Save());
    ASSIGN_OR_RETURN(const double bare, without.Train(bench.seconds));
    f.without.push_back(bare);
    f.ratios.push_back(rate / bare);
  }
  const double written = static_cast<double>(std::max<int64_t>(1, timed.written));
  f.checkpoints = timed.written;
  f.checkpoint_seconds = timed.seconds / written;
  f.checkpoint_stall_ms = 1e3 * timed.stall_seconds / written;
  f.checkpoint_bytes = timed.bytes / std::max<int64_t>(1, timed.written);
  int64_t others = 0;
  f.applied = with.Applied(&f.shards) + without.Applied(&others);
  f.scheduled = with.scheduled() + without.scheduled();
  f.kills = with.kills();
  f.retried = with.retried();
  f.ledger_us_per_step = LedgerMicroseconds() * static_cast<double>(f.shards);
  std::error_code ignored;
  std::filesystem::remove_all(options.directory, ignored);
  return f;
}

}  // namespace coxswain
