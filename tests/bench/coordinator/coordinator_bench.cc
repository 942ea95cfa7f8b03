#include "tests/bench/coordinator/coordinator_bench.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "coordinator/local/local_tasks.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/optimizers.h"
#include "coxswain/strategy.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/this_process.h"
#include "tests/bench/coordinator/fake_workers.h"

namespace coxswain {
namespace {

constexpr int64_t kVariableSize = 16;

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

double ResidentBytes() {
  malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Reads and updates every variable.
absl::StatusOr<RemoteFunction> DefinePlan(ParameterServerStrategy* strategy,
                                          const std::vector<Variable>& variables) {
  return strategy->Define("plan", [&](FunctionBuilder& f) {
    std::vector<Output> values;
    for (const Variable& v : variables) values.push_back(f.Read(v));
    Output loss = f.Sum(f.Square(f.Concat(values, 0)));
    f.Minimize(loss);
    f.Result("loss", loss);
  });
}

absl::Status RunClosures(const ParameterServerStrategy& strategy, const RemoteFunction& function,
                         const CoordinatorOptionsOfBench& options, CoordinatorFigures* figures) {
  CoordinatorOptions queue;
  queue.queue_per_worker = 4;
  ClusterCoordinator coordinator(strategy, queue);
  for (int i = 0; i < options.workers * 4; ++i) coordinator.Schedule(function);
  RETURN_IF_ERROR(coordinator.Join());
  const double begin = Now(), cpu = env::ProcessCpuSeconds();
  int64_t closures = 0;
  while (Now() - begin < options.seconds) {
    for (int i = 0; i < 100; ++i, ++closures) coordinator.Schedule(function);
  }
  RETURN_IF_ERROR(coordinator.Join());
  const auto n = static_cast<double>(closures);
  figures->closures_per_second = n / (Now() - begin);
  figures->cpu_us_per_closure = 1e6 * (env::ProcessCpuSeconds() - cpu) / n;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CoordinatorFigures> MeasureCoordinator(const CoordinatorOptionsOfBench& options) {
  // Between machines it is gRPC.
  setenv("COXSWAIN_TRANSPORT", "grpc", 1);
  CoordinatorFigures figures;
  figures.workers = options.workers;
  figures.variables = options.variables;
  ASSIGN_OR_RETURN(const auto workers, FakeWorkers::Start(options.workers));
  ASSIGN_OR_RETURN(const std::string directory, local::ProgramDirectory());
  ASSIGN_OR_RETURN(const auto ps, local::StartChildTasks(1, 0, 1, directory, net::Secret()));
  cluster::ClusterConfig config = ps->config();
  config.workers = workers->addresses();
  ClusterOptions cluster_options;
  cluster_options.closures_in_flight = options.in_flight;
  cluster_options.insecure = true;
  cluster_options.connect_timeout = cluster_options.straggler_timeout = absl::Minutes(2);
  // Two cores may be all that the coordinator and a thousand workers have here.
  cluster_options.lease = absl::Seconds(4);
  const double memory = ResidentBytes();
  double begin = Now();
  ASSIGN_OR_RETURN(const Cluster cluster, Cluster::Connect(config, cluster_options));
  figures.connect_seconds = Now() - begin;
  if (cluster.Stats().workers_ready != options.workers) {
    return absl::UnavailableError(absl::StrCat("wanted ", options.workers, " workers, found ",
                                               cluster.Stats().workers_ready));
  }

  ParameterServerStrategy strategy(cluster);
  std::vector<Variable> variables;
  for (int i = 0; i < options.variables; ++i) {
    VariableOptions variable;
    variable.shape = Shape{kVariableSize};
    variable.optimizer = Adagrad{.learning_rate = 0.1};
    ASSIGN_OR_RETURN(Variable created,
                     strategy.CreateVariable(absl::StrCat("layer/", i), variable));
    variables.push_back(std::move(created));
  }
  begin = Now();
  ASSIGN_OR_RETURN(const RemoteFunction plan, DefinePlan(&strategy, variables));
  figures.plan_seconds = Now() - begin;
  ASSIGN_OR_RETURN(const RemoteFunction empty, strategy.Define("empty", [](FunctionBuilder& f) {
    f.Result("loss", f.Scalar(0));
  }));
  RETURN_IF_ERROR(RunClosures(strategy, empty, options, &figures));

  begin = Now();
  const double cpu = env::ProcessCpuSeconds();
  absl::SleepFor(absl::Seconds(options.seconds));
  figures.idle_cpu_share = (env::ProcessCpuSeconds() - cpu) / (Now() - begin);
  figures.bytes_per_worker = (ResidentBytes() - memory) / options.workers;
  const ClusterStats stats = cluster.Stats();
  if (stats.failures.workers_lost > 0 || stats.closures.retried > 0) {
    return absl::InternalError(absl::StrCat(stats.failures.workers_lost, " workers were lost"));
  }
  return figures;
}

std::string CoordinatorTable(const std::vector<CoordinatorFigures>& all) {
  std::string text =
      absl::StrFormat("%8s %12s %12s %12s %14s %14s %10s\n", "workers", "connect, s", "plan, s",
                      "closures/s", "CPU us/closure", "KB per worker", "idle CPU");
  for (const CoordinatorFigures& f : all) {
    absl::StrAppendFormat(&text, "%8d %12.2f %12.2f %12.0f %14.1f %14.0f %9.1f%%\n", f.workers,
                          f.connect_seconds, f.plan_seconds, f.closures_per_second,
                          f.cpu_us_per_closure, f.bytes_per_worker / 1000, 100 * f.idle_cpu_share);
  }
  return text;
}

std::string CoordinatorJson(const std::vector<CoordinatorFigures>& all) {
  auto json = nlohmann::ordered_json::array();
  for (const CoordinatorFigures& f : all) {
    json.push_back({{"case", "coordinator"},
                    {"workers", f.workers},
                    {"plan_variables", f.variables},
                    {"connect_seconds", f.connect_seconds},
                    {"plan_seconds", f.plan_seconds},
                    {"closures_per_second", f.closures_per_second},
                    {"cpu_us_per_closure", f.cpu_us_per_closure},
                    {"bytes_per_worker", f.bytes_per_worker},
                    {"idle_cpu_share", f.idle_cpu_share}});
  }
  return json.dump(2) + "\n";
}

absl::StatusOr<CoordinatorFigures> ParseCoordinatorFigures(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array() || json.size() != 1 || !json[0].is_object()) {
    return absl::InternalError(absl::StrCat("wanted the figures of one run, found: ", text));
  }
  const auto number = [&json](const char* key) {
    const auto it = json[0].find(key);
    return it != json[0].end() && it->is_number() ? it->get<double>() : 0.0;
  };
  CoordinatorFigures f;
  f.workers = static_cast<int>(number("workers"));
  f.variables = static_cast<int>(number("plan_variables"));
  f.connect_seconds = number("connect_seconds");
  f.plan_seconds = number("plan_seconds");
  f.closures_per_second = number("closures_per_second");
  f.cpu_us_per_closure = number("cpu_us_per_closure");
  f.bytes_per_worker = number("bytes_per_worker");
  f.idle_cpu_share = number("idle_cpu_share");
  return f;
}

}  // namespace coxswain
