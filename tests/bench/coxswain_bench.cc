// Benchmarks of whole steps: tests/bench/README.md says what they measure.
//
//   coxswain-bench step [SHAPE...] [--cluster C...] [--seconds S] [--pack K] [--in-flight K] ...
//   coxswain-bench pull-push [SHAPE] [--seconds S] [--json [FILE]]
//   coxswain-bench gpu [CASE...] [--compute C] [--seconds S] [--json [FILE]]
//   coxswain-bench heap [SHAPE...] [--seconds S]
//   coxswain-bench matmul [--batch N] [--in N] [--out N] [--cluster C...] [--seconds S]
//   coxswain-bench plot STEP.json --out FILE.svg
//   coxswain-bench coordinator [--workers N,...] [--variables V] [--seconds S] [--json [FILE]]
//   coxswain-bench scaling [SHAPE...] [--cores C] [--network GBPS] [--json [FILE]]
//   coxswain-bench consistency [SHAPE...] [--cluster C...] [--straggler N] [--json [FILE]]
//   coxswain-bench recovery [--cost] [--shape SHAPE] [--cluster PSxW] [--repeat N] ...
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "tests/bench/consistency/consistency_command.h"
#include "tests/bench/coordinator/coordinator_command.h"
#include "tests/bench/coordinator/fake_workers.h"
#include "tests/bench/coordinator/scaling_command.h"
#include "tests/bench/floors/pull_push.h"
#include "tests/bench/recovery/recovery_command.h"
#include "tests/bench/step/gpu_command.h"
#include "tests/bench/step/heap_command.h"
#include "tests/bench/step/matmul_command.h"
#include "tests/bench/step/plot_command.h"
#include "tests/bench/step/report.h"

namespace coxswain {
namespace {

struct Flags {
  std::vector<std::string> shapes = {"null", "talk"};
  std::vector<std::string> clusters = {"in-process", "1x1", "2x2"};
  MeasureOptions options;
  std::string json;  // "-": standard output
  bool no_floors = false;
  std::string compute = "f32";
  bool want_json = false;
};

absl::Status Write(const std::string& file, const std::string& text) {
  if (file.empty() || file == "-") {
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  std::ofstream out(file);
  out << text;
  out.close();
  return out ? absl::OkStatus() : absl::InternalError(absl::StrCat("cannot write ", file));
}

absl::Status Run(const Flags& flags) {
  std::vector<StepShape> shapes;
  std::vector<ClusterShape> clusters;
  for (const std::string& name : flags.shapes) {
    if (name == "all") {
      shapes.insert(shapes.end(), StepShapes().begin(), StepShapes().end());
      continue;
    }
    ASSIGN_OR_RETURN(StepShape shape, FindStepShape(name));
    shapes.push_back(std::move(shape));
  }
  for (const std::string& name : flags.clusters) {
    ASSIGN_OR_RETURN(ClusterShape cluster, ParseClusterShape(name));
    clusters.push_back(cluster);
  }
  // The table goes where the JSON does not.
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  std::fputs(TableHead().c_str(), table);
  std::vector<Figures> all;
  for (const StepShape& shape : shapes) {
    std::optional<Floors> floors;
    if (!flags.no_floors) {
      FloorOptions options;
      options.bf16 = flags.options.compute == ComputeType::kBf16;
      ASSIGN_OR_RETURN(floors, MeasureFloors(shape, options));
    }
    for (const ClusterShape& cluster : clusters) {
      auto figures = MeasureStep(shape, cluster, flags.options);
      if (!figures.ok()) {
        return Annotate(figures.status(), absl::StrCat(shape.name, " on ", cluster.name()));
      }
      std::fputs(TableRow(*figures).c_str(), table);
      std::fflush(table);
      all.push_back(*std::move(figures));
      all.back().floors = floors;
    }
  }
  std::fputs(FloorTable(all).c_str(), table);
  return flags.want_json ? Write(flags.json, ToJson(all)) : absl::OkStatus();
}

struct PullPushFlags {
  std::string shape = "dlrm";
  double seconds = 2;
  std::string json;
  bool want_json = false;
};

absl::Status RunPullPush(const PullPushFlags& flags) {
  ASSIGN_OR_RETURN(const StepShape shape, FindStepShape(flags.shape));
  ASSIGN_OR_RETURN(const auto all, MeasurePullPush(shape, flags.seconds));
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  std::fputs(PullPushTable(shape.name, all).c_str(), table);
  return flags.want_json ? Write(flags.json, PullPushJson(shape.name, all)) : absl::OkStatus();
}

int Main(int argc, char** argv) {
  InitLogging("bench", LogLevel::kWarning);
  CLI::App app("Benchmarks of Coxswain", "coxswain-bench");
  app.require_subcommand(1);
  Flags flags;
  std::string known;
  for (const StepShape& s : StepShapes()) absl::StrAppend(&known, "\n", s.name, ": ", s.summary);
  CLI::App* step = app.add_subcommand("step", "Times whole training steps of the reference shapes");
  step->add_option("SHAPE", flags.shapes,
                   "which, null and talk by default; all for all of them:" + known);
  step->add_option("--cluster", flags.clusters,
                   "in-process, in-process:PSxW, or PSxW for processes on loopback")
      ->allow_extra_args(false);
  step->add_option("--seconds", flags.options.seconds, "of timing, for each line")
      ->check(CLI::PositiveNumber);
  step->add_option("--pack", flags.options.pack, "steps of a closure")
      ->check(CLI::Range(1, 1'000'000));
  step->add_option("--in-flight", flags.options.in_flight, "closures that a worker is kept deep")
      ->check(CLI::Range(1, 1024));
  step->add_option("--threads", flags.options.threads,
                   "compute threads of the process or of each worker (0: by cores)")
      ->check(CLI::NonNegativeNumber);
  step->add_option("--compute", flags.compute, "products of matrices in f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  step->add_flag("--wire-bf16", flags.options.wire_bf16,
                 "rows of tables, layers and their gradients travel in bf16");
  step->add_flag("--no-floors", flags.no_floors, "measure no floors");
  CLI::Option* json =
      step->add_option("--json", flags.json, "also as JSON into this file (none or -: to stdout)")
          ->expected(0, 1);
  RecoveryFlags recovery_flags;
  CLI::App* recovery = AddRecoveryCommand(&app, &recovery_flags);
  CLI::Option* recovery_json =
      recovery
          ->add_option("--json", recovery_flags.json,
                       "also as JSON into this file (none or -: to stdout)")
          ->expected(0, 1);
  PullPushFlags rows_flags;
  CLI::App* rows = app.add_subcommand(
      "pull-push", "Times the rows of a step between two processes, without the step");
  rows->add_option("SHAPE", rows_flags.shape, "whose tables")->capture_default_str();
  rows->add_option("--seconds", rows_flags.seconds, "of timing, for each line")
      ->check(CLI::PositiveNumber);
  CLI::Option* rows_json = rows->add_option("--json", rows_flags.json,
                                            "also as JSON into this file (none or -: to stdout)")
                               ->expected(0, 1);
  MatMulFlags matmul_flags;
  CLI::App* matmul = AddMatMulCommand(&app, &matmul_flags);
  GpuFlags gpu_flags;
  const GpuCommand gpu = AddGpuCommand(&app, &gpu_flags);
  ConsistencyFlags consistency_flags;
  const ConsistencyCommand consistency = AddConsistencyCommand(&app, &consistency_flags);
  HeapFlags heap_flags;
  CLI::App* heap = AddHeapCommand(&app, &heap_flags);
  PlotFlags plot_flags;
  CLI::App* plot = AddPlotCommand(&app, &plot_flags);
  std::string transport = "grpc";
  CLI::App* peer = app.add_subcommand("stream-peer", "The other end of a bare stream")->group("");
  peer->add_option("TRANSPORT", transport, "grpc or host");
  CoordinatorFlags coordinator_flags;
  const CoordinatorCommands coordinator = AddCoordinatorCommands(&app, &coordinator_flags);
  ScalingFlags scaling_flags;
  const ScalingCommand scaling = AddScalingCommand(&app, &scaling_flags);
  CLI11_PARSE(app, argc, argv);
  scaling_flags.want_json = scaling.json->count() > 0;
  if (coordinator.fake_workers->parsed()) {
    return RunFakeWorkers(coordinator_flags.first, coordinator_flags.count);
  }
  coordinator_flags.want_json = coordinator.json->count() > 0;
  if (peer->parsed()) return RunStreamPeer(transport);
  if (flags.compute == "bf16") flags.options.compute = ComputeType::kBf16;
  flags.want_json = json->count() > 0;
  recovery_flags.want_json = recovery_json->count() > 0;
  rows_flags.want_json = rows_json->count() > 0;
  gpu_flags.want_json = gpu.json->count() > 0;
  consistency_flags.want_json = consistency.json->count() > 0;
  const absl::Status s = recovery->parsed()              ? RunRecovery(recovery_flags, Write)
                         : rows->parsed()                ? RunPullPush(rows_flags)
                         : matmul->parsed()              ? RunMatMul(matmul_flags)
                         : gpu.command->parsed()         ? RunGpu(gpu_flags, Write)
                         : consistency.command->parsed() ? RunConsistency(consistency_flags, Write)
                         : heap->parsed()                ? RunHeap(heap_flags)
                         : plot->parsed()                ? RunPlot(plot_flags)
                         : scaling.command->parsed()     ? RunScaling(scaling_flags, Write)
                         : coordinator.bench->parsed()
                             ? RunCoordinatorBench(coordinator_flags, Write)
                             : Run(flags);
  if (!s.ok()) {
    std::fprintf(stderr, "coxswain-bench: %s\n", std::string(s.message()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) { return coxswain::Main(argc, argv); }
