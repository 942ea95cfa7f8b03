// What a GPU does, beside what it cannot do without: the benchmark gpu.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace coxswain {

struct GpuFlags {
  std::vector<std::string> cases;  // none: what docs/gpu.md has figures of, and what they cost
  double seconds = 3;              // of each line; of the others in proportion
  int64_t rows = 0;                // of each table; 0: those of the shape
  std::string compute = "f32";
  int in_flight = 3;  // closures
  std::string cluster = "in-process";
  std::string tables = "cpu";  // where a case does not say
  bool wire_bf16 = false;
  bool no_floors = false;
  std::string json;  // "-": standard output
  bool want_json = false;
};

struct GpuCommand {
  CLI::App* command;
  CLI::Option* json;
};
GpuCommand AddGpuCommand(CLI::App* app, GpuFlags* flags);

// Prints a line for each training step, lookups in tables in the GPU's memory, and what the
// guarantees cost a job whose workers are killed. Without a GPU it says so, measures nothing, and
// writes JSON without lines; of a fake one it measures small things and says that these mean
// nothing. `write` takes a file and its text. Errors: as MeasureStep, MeasureGpuTables and
// MeasureCost; DataLoss when the killed workers' updates were not applied exactly once.
using WriteFunction = std::function<absl::Status(const std::string&, const std::string&)>;
absl::Status RunGpu(const GpuFlags& flags, const WriteFunction& write);

}  // namespace coxswain
