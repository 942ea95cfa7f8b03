#include "tests/bench/step/measure.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "coordinator/api/task_statuses.h"
#include "coxswain/cluster_coordinator.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/env/this_process.h"
#include "tests/bench/step/heap.h"
#include "tests/bench/step/step_function.h"

namespace coxswain {
namespace {

constexpr int kWarmClosures = 4;  // a worker
constexpr int kMostLatencies = 300;

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(q * static_cast<double>(values.size())))];
}

// What is counted somewhere, at one moment.
struct Counters {
  std::map<std::string, double> cpu;  // seconds, by task
  double compute = 0;                 // seconds of the workers' pools
  double worker_cpu = 0;
  int threads = 0;
  int64_t segments = 0;
  uint64_t bytes_to_ps = 0, bytes_from_ps = 0;
  HeapCount heap;
};

absl::StatusOr<Counters> ReadCounters(const Cluster& cluster, bool in_process) {
  Counters c;
  const std::vector<proto::TaskStatus> tasks = TaskStatuses(cluster);
  if (static_cast<int>(tasks.size()) != cluster.num_ps() + cluster.num_workers()) {
    return absl::UnavailableError("a task does not answer");
  }
  for (const proto::TaskStatus& task : tasks) {
    if (!in_process) c.cpu[absl::StrCat(task.job(), ":", task.task())] = task.cpu_seconds();
    if (task.job() == "ps") {
      c.segments += static_cast<int64_t>(task.segments_run());
      c.bytes_to_ps += task.bytes_received();
      c.bytes_from_ps += task.bytes_sent();
    } else if (in_process) {  // all have the same pool
      c.compute = task.compute_seconds();
      c.threads = task.threads();
    } else {
      c.compute += task.compute_seconds();
      c.worker_cpu += task.cpu_seconds();
      c.threads += task.threads();
    }
  }
  c.cpu[in_process ? "all" : "coordinator"] = env::ProcessCpuSeconds();
  if (in_process) {
    c.worker_cpu = env::ProcessCpuSeconds();
    c.heap = ReadHeapCount();
  }
  return c;
}

void FillFigures(const Counters& before, const Counters& after, Figures* f) {
  const double steps = static_cast<double>(std::max<int64_t>(1, f->steps));
  for (const auto& [task, cpu] : after.cpu) {
    const auto it = before.cpu.find(task);
    f->cpu_ms[task] = 1e3 * (cpu - (it == before.cpu.end() ? 0 : it->second)) / steps;
  }
  f->threads = after.threads;
  f->frames = 2.0 * static_cast<double>(after.segments - before.segments) / steps / f->cluster.ps;
  f->bytes_to_ps = static_cast<double>(after.bytes_to_ps - before.bytes_to_ps) / steps;
  f->bytes_from_ps = static_cast<double>(after.bytes_from_ps - before.bytes_from_ps) / steps;
  f->heap_allocations =
      static_cast<double>(after.heap.allocations - before.heap.allocations) / steps;
  f->heap_bytes = static_cast<double>(after.heap.bytes - before.heap.bytes) / steps;
  const double time = f->seconds * std::max(1, after.threads);
  const double compute = after.compute - before.compute;
  f->compute = compute / time;
  f->transport = std::max(0.0, after.worker_cpu - before.worker_cpu - compute) / time;
  f->waiting = std::max(0.0, 1 - f->compute - f->transport);
}

absl::StatusOr<Cluster> StartCluster(const ClusterShape& shape, const MeasureOptions& options) {
  ClusterOptions cluster;
  cluster.closures_in_flight = options.in_flight;
  cluster.threads = options.threads;
  return shape.in_process ? Cluster::InProcess(shape.ps, shape.workers, cluster)
                          : Cluster::Local(shape.ps, shape.workers, cluster);
}

absl::Status ScheduleAll(ClusterCoordinator& coordinator, const RemoteFunction& step, uint32_t pack,
                         int64_t closures) {
  for (int64_t i = 0; i < closures; ++i) coordinator.Schedule(step, Ticket{}, pack);
  return coordinator.Join();
}

// One closure of one step at a time, for at most `seconds`.
absl::Status MeasureLatency(ClusterCoordinator& coordinator, const RemoteFunction& step,
                            double seconds, Figures* f) {
  std::vector<double> milliseconds;
  const double begin = Now();
  double now = begin;
  while (milliseconds.size() < kMostLatencies && (now - begin < seconds || milliseconds.empty())) {
    RETURN_IF_ERROR(ScheduleAll(coordinator, step, 1, 1));
    const double end = Now();
    milliseconds.push_back(1e3 * (end - now));
    now = end;
  }
  f->latency_ms = Quantile(milliseconds, 0.5);
  f->latency_p99_ms = Quantile(milliseconds, 0.99);
  return absl::OkStatus();
}

absl::Status MeasureRate(ClusterCoordinator& coordinator, const RemoteFunction& step, Figures* f) {
  const MeasureOptions& options = f->options;
  const double round = std::min(1.0, options.seconds / 4), begin = Now();
  std::vector<double> rates;
  double rate = f->latency_ms > 0 ? 1e3 / f->latency_ms : 20;  // a guess, for the first round
  for (double now = begin; now - begin < options.seconds;) {
    const int64_t closures =
        std::max<int64_t>(8, static_cast<int64_t>(rate * round / options.pack));
    RETURN_IF_ERROR(ScheduleAll(coordinator, step, options.pack, closures));
    const double end = Now();
    rate = static_cast<double>(closures * options.pack) / std::max(1e-9, end - now);
    rates.push_back(rate);
    f->steps += closures * options.pack;
    now = end;
  }
  f->seconds = Now() - begin;
  f->best_steps_per_second = *std::max_element(rates.begin(), rates.end());
  if (rates.size() > 1) rates.erase(rates.begin());
  f->steps_per_second = Quantile(std::move(rates), 0.5);
  return absl::OkStatus();
}

// Every shard that the function updates has taken one update for each step.
absl::Status CheckUpdates(const StepShape& shape, const Cluster& cluster, int64_t steps) {
  if (shape.batch == 0) return absl::OkStatus();
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    for (const proto::ShardStatus& shard : task.shards()) {
      if (shard.updates_applied() == static_cast<uint64_t>(steps)) continue;
      return absl::DataLossError(absl::StrCat("ps:", task.task(), ", variable '", shard.variable(),
                                              "': ", shard.updates_applied(),
                                              " updates were applied, wanted ", steps));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ClusterShape::name() const {
  const std::string size = absl::StrCat(ps, "x", workers);
  if (!in_process) return size;
  return ps == 1 && workers == 1 ? "in-process" : absl::StrCat("in-process:", size);
}

// As NewHostTransport does.
std::string ClusterShape::transport() const {
  if (in_process) return "";
  const char* wanted = std::getenv("COXSWAIN_TRANSPORT");
  return wanted != nullptr && std::string(wanted) == "grpc" ? "grpc" : "host";
}

absl::StatusOr<ClusterShape> ParseClusterShape(const std::string& text) {
  ClusterShape shape;
  if (text == "in-process") return ClusterShape{true, 1, 1};
  absl::string_view size = text;
  shape.in_process = absl::ConsumePrefix(&size, "in-process:");
  const std::vector<absl::string_view> parts = absl::StrSplit(size, 'x');
  if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &shape.ps) &&
      absl::SimpleAtoi(parts[1], &shape.workers) && shape.ps > 0 && shape.workers > 0) {
    return shape;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a cluster is in-process, in-process:PSxW or PSxW, for example 2x2; found '", text, "'"));
}

double Figures::floor_steps_per_second() const {
  const double cpu_ms = floors ? floors->cpu_ms(cluster.transport()) : 0;
  if (cpu_ms <= 0) return 0;
  int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (cluster.in_process && options.threads > 0) cores = std::min(cores, options.threads);
  return 1e3 * cores / cpu_ms;
}

double Figures::floor_ratio() const {
  const double floor = floor_steps_per_second();
  return floor > 0 ? steps_per_second / floor : 0;
}

double Figures::floor_share_of_cpu() const {
  const double cpu_ms = total_cpu_ms();
  return floors && cpu_ms > 0 ? floors->cpu_ms(cluster.transport()) / cpu_ms : 0;
}

double Figures::total_cpu_ms() const { return cpu_ms_of(""); }

double Figures::cpu_ms_of(const std::string& role) const {
  double sum = 0;
  for (const auto& [task, ms] : cpu_ms) {
    if (absl::StartsWith(task, role)) sum += ms;
  }
  return sum;
}

absl::StatusOr<Figures> MeasureStep(const StepShape& shape, const ClusterShape& cluster,
                                    const MeasureOptions& options) {
  return MeasureFunction(shape, cluster, options, [&](ParameterServerStrategy* strategy) {
    return DefineStep(shape, strategy, options.wire_bf16 ? DType::kBF16 : DType::kF32,
                      options.tables_on_gpu ? TableDevice::kGpu : TableDevice::kCpu);
  });
}

absl::StatusOr<Figures> MeasureFunction(const StepShape& shape, const ClusterShape& cluster_shape,
                                        const MeasureOptions& options,
                                        const DefineFunction& define) {
  Figures f;
  f.shape = shape;
  f.cluster = cluster_shape;
  f.options = options;
  ASSIGN_OR_RETURN(Cluster cluster, StartCluster(cluster_shape, options));
  ParameterServerStrategy strategy(cluster, {.compute = options.compute, .device = options.device});
  ASSIGN_OR_RETURN(RemoteFunction step, define(&strategy));
  ClusterCoordinator coordinator(strategy);
  const int64_t warm = kWarmClosures * cluster_shape.workers;
  RETURN_IF_ERROR(ScheduleAll(coordinator, step, options.pack, warm));
  RETURN_IF_ERROR(MeasureLatency(coordinator, step, options.seconds / 4, &f));
  ASSIGN_OR_RETURN(const Counters before, ReadCounters(cluster, cluster_shape.in_process));
  RETURN_IF_ERROR(MeasureRate(coordinator, step, &f));
  ASSIGN_OR_RETURN(const Counters after, ReadCounters(cluster, cluster_shape.in_process));
  FillFigures(before, after, &f);
  const uint64_t closures = coordinator.stats().completed;
  const uint64_t timed = static_cast<uint64_t>(f.steps / options.pack);
  const int64_t latencies = static_cast<int64_t>(closures - timed) - warm;
  RETURN_IF_ERROR(CheckUpdates(shape, cluster, f.steps + warm * options.pack + latencies));
  return f;
}

}  // namespace coxswain
