#include "tests/bench/consistency/consistency.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/api/task_statuses.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/status.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/env/this_process.h"
#include "tests/bench/consistency/straggler.h"
#include "tests/bench/step/step_function.h"

namespace coxswain {
namespace {

constexpr int kWarmUpdates = 4;
constexpr int kDeterministicWindow = 8;  // the default of train.consistency.window

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

// What has come of all updates so far.
struct Outcome {
  int64_t batches = 0, surplus = 0, updates = 0;
};

absl::Status Take(const std::vector<RemoteValue>& values, Outcome* outcome) {
  for (const RemoteValue& value : values) {
    const absl::Status status = value.Get().status();
    const auto detail = GetDetail(status);
    const bool surplus = detail && detail->cause == ErrorCause::kSurplus;
    if (!surplus) RETURN_IF_ERROR(status);
    ++(surplus ? outcome->surplus : outcome->batches);
  }
  return absl::OkStatus();
}

// Updates until the time is over; at least so many.
absl::Status Train(ClusterCoordinator& coordinator, const RemoteFunction& step,
                   const Consistency& consistency, double seconds, int least, Outcome* outcome) {
  const auto batches = static_cast<size_t>(consistency.batches() + consistency.backup);
  const std::vector<Ticket> tickets(batches);  // the function reads no data set
  std::vector<RemoteValue> values;
  const double begin = Now();
  for (int updates = 0; updates < least || Now() - begin < seconds; ++updates) {
    if (consistency.in_steps()) {
      for (RemoteValue& value : coordinator.ScheduleStep(step, tickets)) {
        values.push_back(std::move(value));
      }
    } else {
      values.push_back(coordinator.Schedule(step));
    }
    outcome->updates += consistency.reduce == GradientReduction::kNone ? consistency.batches() : 1;
  }
  RETURN_IF_ERROR(coordinator.Join());
  return Take(values, outcome);
}

// What all tasks have done so far.
struct Counters {
  int64_t segments = 0;  // that the PS ran
  double cpu = 0;        // seconds, the coordinator's included
};

Counters Count(const Cluster& cluster, bool in_process) {
  Counters counters;
  counters.cpu = env::ProcessCpuSeconds();
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    if (task.job() == "ps") counters.segments += static_cast<int64_t>(task.segments_run());
    if (!in_process) counters.cpu += task.cpu_seconds();
  }
  return counters;
}

absl::StatusOr<pid_t> FirstWorker(const Cluster& cluster) {
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    if (task.job() == "worker" && task.task() == 0 && task.pid() > 0) {
      return static_cast<pid_t>(task.pid());
    }
  }
  return absl::UnavailableError("the first worker does not tell its process");
}

// Sums over rounds that become means.
struct Late {
  int64_t gradients = 0, rows = 0, rows_changed = 0;
  double sum = 0, segments = 0, cpu = 0;
};

// All shards have taken each update once; adds how late gradients were.
absl::Status CheckShards(const Cluster& cluster, int64_t updates, Late* late, int64_t* most) {
  for (const proto::TaskStatus& task : TaskStatuses(cluster, /*staleness=*/true)) {
    for (const proto::ShardStatus& shard : task.shards()) {
      if (shard.updates_applied() != static_cast<uint64_t>(updates)) {
        return absl::DataLossError(absl::StrCat("variable '", shard.variable(),
                                                "': ", shard.updates_applied(),
                                                " updates were applied, wanted ", updates));
      }
      for (const uint64_t count : shard.staleness()) {
        late->gradients += static_cast<int64_t>(count);
      }
      late->sum += static_cast<double>(shard.staleness_sum());
      late->rows += static_cast<int64_t>(shard.gradient_rows());
      late->rows_changed += static_cast<int64_t>(shard.gradient_rows_changed());
      *most = std::max(*most, static_cast<int64_t>(shard.staleness_most()));
    }
  }
  return absl::OkStatus();
}

absl::Status TakeTurn(const ConsistencyOptions& options, WayFigures* f, Late* late) {
  ClusterOptions with;
  with.closures_in_flight = options.in_flight;
  with.threads = options.threads;
  const ClusterShape& shape = f->cluster;
  ASSIGN_OR_RETURN(Cluster cluster, shape.in_process
                                        ? Cluster::InProcess(shape.ps, shape.workers, with)
                                        : Cluster::Local(shape.ps, shape.workers, with));
  ParameterServerStrategy strategy(
      cluster, {.deterministic_ops = f->way.deterministic_ops, .consistency = f->way.consistency});
  ASSIGN_OR_RETURN(const RemoteFunction step, DefineStep(f->shape, &strategy));
  CoordinatorOptions queue;
  const Consistency& consistency = f->way.consistency;
  queue.queue_size = 3 * (consistency.batches() + consistency.backup);
  queue.queue_per_worker = 4 * options.in_flight;
  ClusterCoordinator coordinator(strategy, queue);
  Outcome warm, timed;
  RETURN_IF_ERROR(Train(coordinator, step, consistency, 0, kWarmUpdates, &warm));
  std::unique_ptr<Straggler> straggler;
  if (f->slowdown > 1) {
    ASSIGN_OR_RETURN(const pid_t pid, FirstWorker(cluster));
    straggler = std::make_unique<Straggler>(pid, f->slowdown);
  }
  const Counters before = Count(cluster, shape.in_process);
  const double begin = Now();
  RETURN_IF_ERROR(Train(coordinator, step, consistency, options.seconds, 1, &timed));
  const double seconds = Now() - begin;
  straggler.reset();
  const Counters after = Count(cluster, shape.in_process);
  f->rates.push_back(static_cast<double>(timed.batches) / std::max(1e-9, seconds));
  f->batches += timed.batches;
  f->surplus += timed.surplus;
  f->updates += timed.updates;
  f->seconds += seconds;
  late->segments += static_cast<double>(after.segments - before.segments);
  late->cpu += after.cpu - before.cpu;
  return CheckShards(cluster, warm.updates + timed.updates, late, &f->most_staleness);
}

}  // namespace

std::vector<WayToTrain> WaysToTrain(int workers, int in_flight) {
  std::vector<WayToTrain> ways = {
      {"async", {}},
      {"bounded",
       {.mode = ConsistencyMode::kBounded, .max_staleness = int64_t{workers} * in_flight - 1}},
      {"sync", {.mode = ConsistencyMode::kSync, .replicas = workers}},
      // Two batches of each worker: half as many moments at which nobody computes.
      {"sync x2", {.mode = ConsistencyMode::kSync, .replicas = 2 * workers}},
      {"in order",
       {.mode = ConsistencyMode::kSync, .replicas = workers, .reduce = GradientReduction::kNone}},
      // What a job makes of `async` with train.deterministic, by its default window.
      {"deterministic",
       {.mode = ConsistencyMode::kSync,
        .replicas = kDeterministicWindow,
        .reduce = GradientReduction::kNone},
       /*deterministic_ops=*/true}};
  if (workers > 1) {
    ways.push_back(
        {"sync+1", {.mode = ConsistencyMode::kSync, .replicas = workers - 1, .backup = 1}});
    ways.push_back({"hybrid", {.mode = ConsistencyMode::kHybrid, .group_size = 2}});
  }
  ways.push_back({"accumulate", {.accumulate = 2}});
  return ways;
}

namespace {

absl::StatusOr<std::vector<WayToTrain>> WantedWays(int workers, const ConsistencyOptions& options) {
  std::vector<WayToTrain> ways = WaysToTrain(workers, options.in_flight);
  if (options.ways.empty()) return ways;
  std::set<std::string> wanted(options.ways.begin(), options.ways.end());
  std::erase_if(ways, [&](const WayToTrain& way) {
    return wanted.erase(way.name) == 0 && way.name != "async";
  });
  wanted.erase("async");
  if (wanted.empty()) return ways;
  return absl::InvalidArgumentError(
      absl::StrCat("no way to train is called '", *wanted.begin(), "' with ", workers, " workers"));
}

}  // namespace

double WayFigures::rate() const {
  if (rates.empty()) return 0;
  std::vector<double> sorted = rates;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

absl::StatusOr<std::vector<WayFigures>> MeasureWays(const StepShape& shape,
                                                    const ClusterShape& cluster,
                                                    const ConsistencyOptions& options) {
  if (options.slowdown > 1 && cluster.in_process) {
    return absl::InvalidArgumentError(
        "a worker is slowed down by stopping its process: wanted PSxW, found one in process");
  }
  ASSIGN_OR_RETURN(std::vector<WayToTrain> ways, WantedWays(cluster.workers, options));
  std::vector<WayFigures> all;
  for (WayToTrain& way : ways) {
    WayFigures f;
    f.way = std::move(way);
    f.shape = shape;
    f.cluster = cluster;
    all.push_back(f);
    if (options.slowdown <= 1) continue;
    f.slowdown = options.slowdown;
    all.push_back(std::move(f));
  }
  std::vector<Late> late(all.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      const absl::Status status = TakeTurn(options, &all[i], &late[i]);
      if (!status.ok()) return Annotate(status, all[i].way.name);
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto batches = static_cast<double>(std::max<int64_t>(1, all[i].batches));
    all[i].messages = 2 * late[i].segments / batches / cluster.ps;
    all[i].cpu_ms = 1e3 * late[i].cpu / batches;
    if (late[i].gradients > 0) {
      all[i].mean_staleness = late[i].sum / static_cast<double>(late[i].gradients);
    }
    if (late[i].rows > 0) {
      all[i].rows_changed =
          static_cast<double>(late[i].rows_changed) / static_cast<double>(late[i].rows);
    }
  }
  return all;
}

}  // namespace coxswain
