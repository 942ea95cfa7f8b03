#include "tests/bench/step/gpu_command.h"

#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/device/open_devices.h"
#include "tests/bench/floors/floors.h"
#include "tests/bench/step/measure.h"
#include "tests/bench/step/report.h"

namespace coxswain {
namespace {

constexpr const char* kCases[] = {"talk:512", "ctr:1000", "dlrm:512", "dlrm:8192", "dlrm:65536"};

// Reads SHAPE:BATCH.
absl::StatusOr<StepShape> ReadCase(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  ASSIGN_OR_RETURN(StepShape shape, FindStepShape(parts.first));
  if (!absl::SimpleAtoi(parts.second, &shape.batch) || shape.batch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted SHAPE:BATCH, for example dlrm:8192; found '", text, "'"));
  }
  return shape;
}

ComputeType ReadCompute(const std::string& text) {
  return text == "bf16"   ? ComputeType::kBf16
         : text == "tf32" ? ComputeType::kTf32
                          : ComputeType::kF32;
}

absl::StatusOr<Figures> MeasureOnGpu(const StepShape& shape, const GpuFlags& flags) {
  MeasureOptions options;
  options.seconds = flags.seconds;
  options.compute = ReadCompute(flags.compute);
  options.in_flight = flags.in_flight;
  options.wire_bf16 = flags.wire_bf16;
  options.tables_on_gpu = flags.tables == "gpu";
  options.device = DeviceChoice::kGpu;
  std::optional<Floors> floors;
  if (!flags.no_floors) {
    const bool bf16 = options.compute == ComputeType::kBf16;
    ASSIGN_OR_RETURN(floors, MeasureFloors(shape, {.bf16 = bf16, .streams = false}));
  }
  ASSIGN_OR_RETURN(const ClusterShape cluster, ParseClusterShape(flags.cluster));
  ASSIGN_OR_RETURN(Figures figures, MeasureStep(shape, cluster, options));
  figures.floors = floors;
  return figures;
}

// The first GPU that workers of this process get; "" for none.
absl::StatusOr<std::string> NameOfGpu() {
  const auto env = env::NewRealEnv(1);
  ASSIGN_OR_RETURN(const auto devices, device::OpenDevices(device::WantedGpus(), env.get()));
  return devices->empty() ? std::string() : devices->device(0)->name();
}

// What a GPU cannot do without: its products, and what crosses the bus.
std::string GpuFloors(const Figures& f) {
  if (!f.floors) return "";
  return absl::StrFormat(
      "  floors: %.2f GFLOP of products a step, %.2f MB up and %.2f MB down the bus; host: %.2f ms "
      "of one thread to gather and update\n",
      f.floors->flops / 1e9, f.bytes_to_ps / 1e6, f.bytes_from_ps / 1e6, f.floors->rows_ms());
}

}  // namespace

GpuCommand AddGpuCommand(CLI::App* app, GpuFlags* flags) {
  CLI::App* command = app->add_subcommand("gpu", "Times whole training steps on a GPU");
  command->add_option("CASE", flags->cases,
                      absl::StrCat("SHAPE:BATCH; by default ", absl::StrJoin(kCases, " ")));
  command->add_option("--seconds", flags->seconds, "of each line")->check(CLI::PositiveNumber);
  command->add_option("--compute", flags->compute, "products of matrices in f32, tf32 or bf16")
      ->check(CLI::IsMember({"f32", "tf32", "bf16"}))
      ->capture_default_str();
  command->add_option("--in-flight", flags->in_flight, "closures that the worker is kept deep")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--cluster", flags->cluster, "in-process, in-process:PSxW or PSxW")
      ->capture_default_str();
  command->add_option("--tables", flags->tables, "in whose memory parameter servers keep tables")
      ->check(CLI::IsMember({"cpu", "gpu"}))
      ->capture_default_str();
  command->add_flag("--wire-bf16", flags->wire_bf16,
                    "rows of tables, layers and their gradients travel in bf16");
  command->add_flag("--no-floors", flags->no_floors, "measure no floors");
  CLI::Option* json =
      command
          ->add_option("--json", flags->json, "also as JSON into this file (none or -: to stdout)")
          ->expected(0, 1);
  return {command, json};
}

absl::Status RunGpu(const GpuFlags& flags, const WriteFunction& write) {
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  std::vector<StepShape> shapes;
  std::vector<std::string> wanted = flags.cases;
  if (wanted.empty()) wanted.assign(std::begin(kCases), std::end(kCases));
  for (const std::string& text : wanted) {
    ASSIGN_OR_RETURN(StepShape shape, ReadCase(text));
    shapes.push_back(std::move(shape));
  }
  ASSIGN_OR_RETURN(const std::string gpu, NameOfGpu());
  std::vector<Figures> all;
  if (gpu.empty()) {
    std::fputs("no GPU here: nothing is measured\n", table);
  } else {
    std::fputs(absl::StrCat("on ", gpu, "\n", TableHead()).c_str(), table);
    for (const StepShape& shape : shapes) {
      auto figures = MeasureOnGpu(shape, flags);
      if (!figures.ok()) {
        return Annotate(figures.status(), absl::StrCat(shape.name, ":", shape.batch));
      }
      std::fputs(absl::StrCat(shape.batch, " examples:\n", TableRow(*figures), GpuFloors(*figures))
                     .c_str(),
                 table);
      std::fflush(table);
      all.push_back(*std::move(figures));
    }
  }
  if (!flags.want_json) return absl::OkStatus();
  const std::string name = gpu.empty() ? "null" : absl::StrCat("\"", gpu, "\"");
  return write(flags.json, absl::StrCat("{\"gpu\": ", name, ", \"lines\": ", ToJson(all), "}\n"));
}

}  // namespace coxswain
