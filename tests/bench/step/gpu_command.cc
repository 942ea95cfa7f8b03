// Cases as they are written; what is measured of each kind; then all of it.
#include "tests/bench/step/gpu_command.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/device/open_devices.h"
#include "tests/bench/floors/floors.h"
#include "tests/bench/recovery/recovery_report.h"
#include "tests/bench/scratch.h"
#include "tests/bench/step/gpu_table.h"
#include "tests/bench/step/measure.h"
#include "tests/bench/step/report.h"

namespace coxswain {
namespace {

constexpr char kTable[] = "table", kCost[] = "cost";
constexpr const char* kCases[] = {
    "talk:512",   "ctr:1000",       "dlrm:512",       "dlrm:8192",          "dlrm:8192:gpu",
    "dlrm:65536", "dlrm:65536:gpu", "dlrm:8192:hash", "dlrm:8192:gpu:hash", kTable,
    kCost};
// A fake GPU computes on the CPU, and more slowly.
constexpr const char* kFakeCases[] = {"talk:32",      "ctr:32",           "dlrm:32", "dlrm:32:gpu",
                                      "dlrm:32:hash", "dlrm:32:gpu:hash", kTable,    kCost};
constexpr int64_t kFakeRows = 1000;
constexpr double kFakeSeconds = 0.5;

// SHAPE:BATCH[:cpu|:gpu][:hash].
struct StepCase {
  StepShape shape;
  bool tables_on_gpu = false;
  bool hash = false;
};

absl::StatusOr<StepCase> ReadCase(const std::string& text, const GpuFlags& flags) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted SHAPE:BATCH, for example dlrm:8192, and after it :gpu or :cpu for where tables are "
        "and :hash for hash tables; or ",
        kTable, " or ", kCost, "; found '", text, "'"));
  };
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() < 2) return wrong();
  StepCase c;
  ASSIGN_OR_RETURN(c.shape, FindStepShape(parts[0]));
  if (!absl::SimpleAtoi(parts[1], &c.shape.batch) || c.shape.batch < 1) return wrong();
  c.tables_on_gpu = flags.tables == "gpu";
  for (size_t i = 2; i < parts.size(); ++i) {
    if (parts[i] == "cpu" || parts[i] == "gpu") {
      c.tables_on_gpu = parts[i] == "gpu";
    } else if (parts[i] == "hash") {
      c.hash = true;
    } else {
      return wrong();
    }
  }
  for (TableShape& table : c.shape.tables) {
    table.hash = c.hash;
    if (flags.rows > 0) table.rows = flags.rows;
  }
  return c;
}

ComputeType ReadCompute(const std::string& text) {
  return text == "bf16"   ? ComputeType::kBf16
         : text == "tf32" ? ComputeType::kTf32
                          : ComputeType::kF32;
}

// By shape and batch: wherever tables are, the floors are the same.
using KnownFloors = std::map<std::pair<std::string, int64_t>, Floors>;

absl::StatusOr<Figures> MeasureCase(const StepCase& c, const GpuFlags& flags, KnownFloors* known) {
  MeasureOptions options;
  options.seconds = flags.seconds;
  options.compute = ReadCompute(flags.compute);
  options.in_flight = flags.in_flight;
  options.wire_bf16 = flags.wire_bf16;
  options.tables_on_gpu = c.tables_on_gpu;
  options.device = DeviceChoice::kGpu;
  std::optional<Floors> floors;
  if (!flags.no_floors) {
    const auto key = std::pair(c.shape.name, c.shape.batch);
    if (known->count(key) == 0) {
      const bool bf16 = options.compute == ComputeType::kBf16;
      ASSIGN_OR_RETURN((*known)[key], MeasureFloors(c.shape, {.bf16 = bf16, .streams = false}));
    }
    floors = known->at(key);
  }
  ASSIGN_OR_RETURN(const ClusterShape cluster, ParseClusterShape(flags.cluster));
  ASSIGN_OR_RETURN(Figures figures, MeasureStep(c.shape, cluster, options));
  figures.floors = floors;
  return figures;
}

// What a GPU cannot do without: its products, and what crosses the bus.
std::string GpuFloors(const Figures& f) {
  if (!f.floors) return "";
  return absl::StrFormat(
      "  floors: %.2f GFLOP of products a step, %.2f MB up and %.2f MB down the bus; host: %.2f ms "
      "of one thread to gather and update\n",
      f.floors->flops / 1e9, f.bytes_to_ps / 1e6, f.bytes_from_ps / 1e6, f.floors->rows_ms());
}

// Threads are as many as a PS would have lanes.
GpuTableBench TableBenchOf(const GpuFlags& flags) {
  GpuTableBench bench;
  bench.seconds = flags.seconds / 3;
  if (flags.rows > 0) {
    bench.rows = flags.rows;
    bench.ids = std::max<int64_t>(1, flags.rows / 8);
  }
  return bench;
}

// 20 kills in all, unless the turns are shorter than usual.
absl::StatusOr<CostBench> CostBenchOf(const GpuFlags& flags, const std::string& scratch) {
  CostBench bench;
  ASSIGN_OR_RETURN(bench.shape, FindStepShape("talk"));
  for (TableShape& table : bench.shape.tables) {
    if (flags.rows > 0) table.rows = flags.rows;
  }
  bench.cluster = {false, 2, 4};
  bench.in_flight = flags.in_flight;
  bench.seconds = 15 * flags.seconds;
  bench.every = 10;
  bench.turns = 2;
  bench.kills = std::clamp(static_cast<int>(bench.seconds / 4), 1, 10);
  bench.checkpoints = scratch;
  bench.device = DeviceChoice::kGpu;
  return bench;
}

// All that was measured.
class Report {
 public:
  Report(const GpuFlags& flags, FILE* table) : flags_(flags), table_(table) {}

  absl::Status Measure(const std::string& text,
                       const std::shared_ptr<const device::DeviceSet>& devices) {
    if (text == kTable) return MeasureTable(devices);
    if (text == kCost) return MeasureGuarantees();
    ASSIGN_OR_RETURN(const StepCase c, ReadCase(text, flags_));
    ASSIGN_OR_RETURN(Figures figures, MeasureCase(c, flags_, &floors_));
    Print(absl::StrFormat("%d examples, %s on the %s: %.3f M examples a second\n%s%s",
                          c.shape.batch, c.hash ? "hash tables" : "tables",
                          c.tables_on_gpu ? "GPU" : "host",
                          1e-6 * figures.steps_per_second * static_cast<double>(c.shape.batch),
                          TableRow(figures), GpuFloors(figures)));
    steps_.push_back(std::move(figures));
    return absl::OkStatus();
  }

  void Print(const std::string& text) const {
    std::fputs(text.c_str(), table_);
    std::fflush(table_);
  }
  // `gpu`: its name; empty: there is none.
  std::string Json(const std::string& gpu, bool fake) const {
    std::string json = gpu.empty() ? "{\"gpu\": null" : absl::StrCat("{\"gpu\": \"", gpu, "\"");
    if (fake) absl::StrAppend(&json, ", \"figures_mean_nothing\": true");
    absl::StrAppend(&json, ", \"lines\": ", ToJson(steps_));
    if (!tables_.empty()) absl::StrAppend(&json, ", \"tables\": ", tables_);
    if (!cost_.empty()) absl::StrAppend(&json, ", \"cost\": ", cost_);
    return absl::StrCat(json, "}\n");
  }

 private:
  absl::Status MeasureTable(const std::shared_ptr<const device::DeviceSet>& devices) {
    const GpuTableBench bench = TableBenchOf(flags_);
    ASSIGN_OR_RETURN(const std::vector<GpuTableFigures> all,
                     MeasureGpuTables(devices->device(0), bench));
    Print(GpuTableText(bench, all));
    tables_ = GpuTableJson(bench, all);
    return absl::OkStatus();
  }
  absl::Status MeasureGuarantees() {
    Scratch scratch;
    RETURN_IF_ERROR(scratch.Make(""));
    ASSIGN_OR_RETURN(const CostBench bench, CostBenchOf(flags_, scratch.path()));
    ASSIGN_OR_RETURN(const CostFigures figures, MeasureCost(bench));
    Print(CostTable(bench, figures));
    cost_ = CostJson(bench, figures);
    if (figures.applied == figures.scheduled) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(figures.applied, " updates were applied, wanted ", figures.scheduled));
  }

  const GpuFlags& flags_;
  FILE* const table_;
  KnownFloors floors_;
  std::vector<Figures> steps_;
  std::string tables_, cost_;  // JSON; empty: not measured
};

}  // namespace

GpuCommand AddGpuCommand(CLI::App* app, GpuFlags* flags) {
  CLI::App* command = app->add_subcommand("gpu", "Times whole training steps on a GPU");
  command->add_option("CASE", flags->cases,
                      absl::StrCat("SHAPE:BATCH[:cpu|:gpu][:hash] for a step, its tables there, as "
                                   "hash tables; table: lookups in the GPU's memory; cost: of "
                                   "checkpoints, ledgers and kills; by default ",
                                   absl::StrJoin(kCases, " ")));
  command->add_option("--seconds", flags->seconds, "of each line")->check(CLI::PositiveNumber);
  command->add_option("--rows", flags->rows, "of each table instead of the shape's")
      ->check(CLI::PositiveNumber);
  command->add_option("--compute", flags->compute, "products of matrices in f32, tf32 or bf16")
      ->check(CLI::IsMember({"f32", "tf32", "bf16"}))
      ->capture_default_str();
  command->add_option("--in-flight", flags->in_flight, "closures that the worker is kept deep")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--cluster", flags->cluster, "of steps: in-process, in-process:PSxW or PSxW")
      ->capture_default_str();
  command
      ->add_option("--tables", flags->tables,
                   "in whose memory parameter servers keep tables, where CASE does not say")
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

absl::Status RunGpu(const GpuFlags& given, const WriteFunction& write) {
  GpuFlags flags = given;
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  for (const std::string& text : flags.cases) {
    if (text != kTable && text != kCost) RETURN_IF_ERROR(ReadCase(text, flags).status());
  }
  const auto env = env::NewRealEnv(1);
  ASSIGN_OR_RETURN(const auto devices, device::OpenDevices(device::WantedGpus(), env.get()));
  const std::string gpu = devices->empty() ? "" : devices->device(0)->name();
  const bool fake = absl::StartsWith(device::WantedGpus(), "fake");
  if (flags.cases.empty() && fake) {
    flags.cases.assign(std::begin(kFakeCases), std::end(kFakeCases));
    flags.seconds = std::min(flags.seconds, kFakeSeconds);
    if (flags.rows == 0) flags.rows = kFakeRows;
  } else if (flags.cases.empty()) {
    flags.cases.assign(std::begin(kCases), std::end(kCases));
  }
  Report report(flags, table);
  if (gpu.empty()) {
    report.Print("no GPU here: nothing is measured\n");
  } else {
    report.Print(absl::StrCat("on ", fake ? "a fake GPU: figures of it mean nothing" : gpu, "\n",
                              TableHead()));
    for (const std::string& text : flags.cases) {
      RETURN_IF_ERROR(Annotate(report.Measure(text, devices), text));
    }
  }
  return flags.want_json ? write(flags.json, report.Json(gpu, fake)) : absl::OkStatus();
}

}  // namespace coxswain
