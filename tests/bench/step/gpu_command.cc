#include "tests/bench/step/gpu_command.h"

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/device/open_devices.h"
#include "tests/bench/floors/floors.h"
#include "tests/bench/step/measure.h"
#include "tests/bench/step/report.h"

namespace coxswain {
namespace {

struct GpuCase {
  const char* shape;
  int64_t batch;
};
constexpr GpuCase kCases[] = {
    {"talk", 512}, {"ctr", 1'000}, {"dlrm", 512}, {"dlrm", 8'192}, {"dlrm", 65'536}};

// The first GPU that workers of this process get; "" for none.
absl::StatusOr<std::string> NameOfGpu() {
  const auto env = env::NewRealEnv(1);
  ASSIGN_OR_RETURN(const auto devices, device::OpenDevices(device::WantedGpus(), env.get()));
  return devices->empty() ? std::string() : devices->device(0)->name();
}

// What a GPU cannot do without: its products, and what crosses the bus.
std::string GpuFloors(const Figures& f) {
  return absl::StrFormat(
      "  floors: %.2f GFLOP of products a step, %.2f MB up and %.2f MB down the bus; host: %.2f ms "
      "of one thread to gather and update\n",
      f.floors->flops / 1e9, f.bytes_to_ps / 1e6, f.bytes_from_ps / 1e6, f.floors->rows_ms());
}

}  // namespace

GpuCommand AddGpuCommand(CLI::App* app, GpuFlags* flags) {
  CLI::App* command = app->add_subcommand("gpu", "Times whole training steps on a GPU");
  command->add_option("--seconds", flags->seconds, "of each line")->check(CLI::PositiveNumber);
  command->add_option("--compute", flags->compute, "products of matrices in f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  CLI::Option* json =
      command
          ->add_option("--json", flags->json, "also as JSON into this file (none or -: to stdout)")
          ->expected(0, 1);
  return {command, json};
}

absl::Status RunGpu(const GpuFlags& flags, const WriteFunction& write) {
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  ASSIGN_OR_RETURN(const std::string gpu, NameOfGpu());
  std::vector<Figures> all;
  if (gpu.empty()) {
    std::fputs("no GPU here: nothing is measured\n", table);
  } else {
    std::fputs(absl::StrCat("on ", gpu, "\n", TableHead()).c_str(), table);
    MeasureOptions options;
    options.seconds = flags.seconds;
    options.bf16 = flags.compute == "bf16";
    options.device = DeviceChoice::kGpu;
    for (const GpuCase& c : kCases) {
      ASSIGN_OR_RETURN(StepShape shape, FindStepShape(c.shape));
      shape.batch = c.batch;
      ASSIGN_OR_RETURN(const Floors floors,
                       MeasureFloors(shape, {.bf16 = options.bf16, .streams = false}));
      auto figures = MeasureStep(shape, {true, 1, 1}, options);
      if (!figures.ok()) {
        return Annotate(figures.status(), absl::StrCat(c.shape, " ", c.batch));
      }
      figures->floors = floors;
      std::fputs(
          absl::StrCat(c.batch, " examples:\n", TableRow(*figures), GpuFloors(*figures)).c_str(),
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
