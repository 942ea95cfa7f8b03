#include "tests/bench/recovery/recovery.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/local/local_tasks.h"
#include "coxswain/checkpoint.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "tests/bench/recovery/fire.h"
#include "tests/bench/recovery/timeline.h"
#include "tests/bench/step/step_function.h"

namespace coxswain {
namespace {

using Kind = ClusterEvent::Kind;

constexpr int64_t kMostOpen = 100;  // closures that wait or run, as in the script for TensorFlow
constexpr double kTimeout = 60;
constexpr double kWarm = 1.5;           // seconds after the first completion
constexpr double kAfterCheckpoint = 1;  // seconds of steps that a PS loses

template <typename T>
absl::StatusOr<T> InTime(std::optional<T> value, absl::string_view what) {
  if (value) return *value;
  return absl::DeadlineExceededError(absl::StrCat(what, " did not happen within ", kTimeout, " s"));
}

// A job that runs until it is stopped.
class Run {
 public:
  static absl::StatusOr<std::unique_ptr<Run>> Start(const RecoveryBench& bench) {
    std::unique_ptr<Run> run(new Run(bench));
    ASSIGN_OR_RETURN(const std::string directory, local::ProgramDirectory());
    const int threads = bench.threads > 0 ? bench.threads : local::ThreadsPerWorker(bench.workers);
    ASSIGN_OR_RETURN(FireDaemons daemons,
                     FireDaemons::Start(bench.ps, bench.workers, threads, directory));
    run->daemons_.emplace(std::move(daemons));
    ClusterOptions options;
    options.closures_in_flight = bench.in_flight;
    options.insecure = true;
    options.recovery.cluster_timeout = absl::Seconds(kTimeout);
    options.on_event = [timeline = run->timeline_](const ClusterEvent& e) { timeline->Event(e); };
    ASSIGN_OR_RETURN(Cluster cluster, Cluster::Connect(run->daemons_->config(), options));
    run->strategy_.emplace(cluster);
    ASSIGN_OR_RETURN(run->step_, DefineStep(bench.shape, &*run->strategy_));
    run->coordinator_.emplace(*run->strategy_);
    run->coordinator_->set_observer([timeline = run->timeline_](const Ticket& t, const auto& r) {
      timeline->Completed(t, r.status());
    });
    run->feeder_ = std::thread([run = run.get()] {
      while (const auto ticket = run->timeline_->Next(kMostOpen)) {
        run->coordinator_->Schedule(run->step_, *ticket);
      }
    });
    return run;
  }
  ~Run() { StopFeeding(); }

  absl::Status MeasureWorker(RecoveryFigures* f);
  absl::Status MeasurePs(RecoveryFigures* f);
  absl::Status Finish(RecoveryFigures* f);

 private:
  explicit Run(const RecoveryBench& bench)
      : bench_(bench),
        timeline_(std::make_shared<Timeline>(int64_t{bench.workers} * bench.in_flight)) {}

  void StopFeeding() {
    timeline_->Close();
    if (feeder_.joinable()) feeder_.join();
  }
  // Closures that each worker's process has run.
  std::map<int, int64_t> ClosuresRun() const {
    std::map<int, int64_t> run;
    for (const proto::TaskStatus& task : TaskStatuses(strategy_->cluster())) {
      if (task.job() == "worker") run[task.task()] = static_cast<int64_t>(task.closures_run());
    }
    return run;
  }
  int64_t SurvivorsRun() const {
    int64_t sum = 0;
    for (const auto& [worker, count] : ClosuresRun()) sum += worker == victim() ? 0 : count;
    return sum;
  }
  // The rate of the survivors until `end`, in which the timeline is waited for.
  double SurvivorsUntil(double end) const {
    const double begin = timeline_->Now();
    const int64_t before = SurvivorsRun();
    timeline_->AwaitTime(end);
    const int64_t after = SurvivorsRun();
    return static_cast<double>(after - before) / (timeline_->Now() - begin);
  }
  absl::StatusOr<double> AwaitFirstOfReplacement() const;
  int victim() const { return bench_.workers - 1; }

  const RecoveryBench bench_;
  std::shared_ptr<Timeline> timeline_;
  std::optional<FireDaemons> daemons_;
  std::optional<ParameterServerStrategy> strategy_;
  RemoteFunction step_;
  std::optional<ClusterCoordinator> coordinator_;
  std::thread feeder_;
};

absl::StatusOr<double> Run::AwaitFirstOfReplacement() const {
  const double begin = timeline_->Now();
  while (timeline_->Now() - begin < kTimeout) {
    const auto run = ClosuresRun();
    const auto replacement = run.find(victim());
    if (replacement != run.end() && replacement->second > 0) return timeline_->Now();
  }
  return absl::DeadlineExceededError("the replacement completes no closure");
}

absl::Status Run::MeasureWorker(RecoveryFigures* f) {
  ASSIGN_OR_RETURN(const double first,
                   InTime(timeline_->AwaitCompletion(0, kTimeout), "a completion"));
  timeline_->AwaitTime(first + kWarm);
  const double begin = timeline_->Now();
  f->survivors_before = SurvivorsUntil(begin + bench_.before);

  const double killed = timeline_->Now();
  RETURN_IF_ERROR(daemons_->KillWorker(victim()));
  ASSIGN_OR_RETURN(const double detected,
                   InTime(timeline_->AwaitEvent(Kind::kWorkerLost, killed, kTimeout), "the loss"));
  f->survivors_down = SurvivorsUntil(killed + bench_.down);

  const double restarted = timeline_->Now();
  RETURN_IF_ERROR(daemons_->RestartWorker(victim()));
  ASSIGN_OR_RETURN(
      const double ready,
      InTime(timeline_->AwaitEvent(Kind::kWorkerJoined, restarted, kTimeout), "the return"));
  ASSIGN_OR_RETURN(const double replaced, AwaitFirstOfReplacement());
  f->survivors_after = SurvivorsUntil(restarted + bench_.after);

  const double end = timeline_->Now();
  const std::vector<double> times = timeline_->completions();
  f->rate_before = RateBetween(times, begin, killed);
  f->rate_down = RateBetween(times, detected, restarted);
  f->rate_after = RateBetween(times, replaced, end);
  f->pause_before = LongestGap(times, killed - 1, killed);
  f->pause_at_kill = LongestGap(times, killed, killed + 1);
  f->kill_to_detected = detected - killed;
  const std::vector<double> under_way = timeline_->CompletionsOf(timeline_->in_flight_at_loss());
  // How many the survivors had of what was under way; the next one is a lost worker's.
  const size_t survivors = static_cast<size_t>((bench_.workers - 1) * bench_.in_flight);
  if (under_way.size() <= survivors) {
    return absl::InternalError("what the killed worker had was not completed elsewhere");
  }
  f->kill_to_elsewhere = under_way[survivors] - killed;
  f->kill_to_all_elsewhere = under_way.back() - killed;
  f->restart_to_ready = ready - restarted;
  f->restart_to_first = replaced - restarted;
  const double wanted = 0.9 * f->rate_before * RecoveryFigures::kBin;
  if (const auto back = FirstFullWindow(times, restarted, end, RecoveryFigures::kBin, wanted)) {
    f->restart_to_90 = *back - restarted;
  }
  f->bins = Bins(times, begin, end, RecoveryFigures::kBin);
  f->killed_at = killed - begin;
  f->restarted_at = restarted - begin;
  std::vector<int64_t> steady = Bins(times, begin, killed, RecoveryFigures::kBin);
  std::sort(steady.begin(), steady.end());
  f->bins_before_median = steady.empty() ? 0 : steady[steady.size() / 2];
  f->bins_down = Bins(times, killed, restarted, RecoveryFigures::kBin);
  return absl::OkStatus();
}

absl::Status Run::MeasurePs(RecoveryFigures* f) {
  CheckpointOptions options;
  options.directory = absl::StrCat(bench_.checkpoints, "/recovery");
  options.begin_anew = true;  // a run that was killed has left its own there
  options.every = absl::ZeroDuration();
  CheckpointManager manager(options);
  RETURN_IF_ERROR(manager.Start(strategy_->cluster()));
  RETURN_IF_ERROR(manager.Save());
  timeline_->AwaitTime(timeline_->Now() + kAfterCheckpoint);

  const double killed = timeline_->Now();
  RETURN_IF_ERROR(daemons_->KillPs(0));
  RETURN_IF_ERROR(daemons_->RestartPs(0));
  ASSIGN_OR_RETURN(const double detected,
                   InTime(timeline_->AwaitEvent(Kind::kPsLost, killed, kTimeout), "the loss"));
  ASSIGN_OR_RETURN(
      const double restored,
      InTime(timeline_->AwaitEvent(Kind::kRecovered, killed, kTimeout), "the recovery"));
  ASSIGN_OR_RETURN(const double completed,
                   InTime(timeline_->AwaitCompletion(restored, kTimeout), "a completion"));
  const ClusterStats stats = strategy_->cluster().Stats();
  f->ps_kill_to_detected = detected - killed;
  if (stats.failures.recovery_seconds.empty()) return absl::InternalError("no recovery is counted");
  f->ps_kill_to_dispatch = detected - killed + stats.failures.recovery_seconds.back();
  f->ps_kill_to_new = completed - killed;
  f->closures_rerun = stats.failures.closures_rerun;
  const double written = static_cast<double>(std::max<int64_t>(1, stats.checkpoints.written));
  f->checkpoint_seconds = stats.checkpoints.seconds / written;
  f->checkpoint_stall_ms = 1e3 * stats.checkpoints.stall_seconds / written;
  f->checkpoint_bytes = stats.checkpoints.bytes / std::max<int64_t>(1, stats.checkpoints.written);
  std::error_code ignored;
  std::filesystem::remove_all(options.directory, ignored);
  return absl::OkStatus();
}

absl::Status Run::Finish(RecoveryFigures* f) {
  StopFeeding();
  RETURN_IF_ERROR(coordinator_->Join());
  RETURN_IF_ERROR(timeline_->error());
  f->scheduled = f->applied = timeline_->scheduled();
  f->retried = static_cast<int64_t>(coordinator_->stats().retried);
  for (const proto::TaskStatus& task : TaskStatuses(strategy_->cluster())) {
    for (const proto::ShardStatus& shard : task.shards()) {
      const int64_t applied = static_cast<int64_t>(shard.updates_applied());
      if (std::abs(applied - f->scheduled) > std::abs(f->applied - f->scheduled)) {
        f->applied = applied;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecoveryFigures> MeasureRecovery(const RecoveryBench& bench) {
  RecoveryFigures figures;
  ASSIGN_OR_RETURN(const std::unique_ptr<Run> run, Run::Start(bench));
  RETURN_IF_ERROR(run->MeasureWorker(&figures));
  RETURN_IF_ERROR(run->MeasurePs(&figures));
  RETURN_IF_ERROR(run->Finish(&figures));
  return figures;
}

}  // namespace coxswain
