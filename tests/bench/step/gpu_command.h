// Steps on a GPU, beside what they cannot do without: the benchmark gpu.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace coxswain {

struct GpuFlags {
  std::vector<std::string> cases;  // SHAPE:BATCH; none: talk, ctr and three of dlrm
  double seconds = 3;              // of each line
  std::string compute = "f32";
  int in_flight = 3;  // closures
  std::string cluster = "in-process";
  std::string tables = "cpu";
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

// Prints a line for talk, ctr and dlrm with larger and larger batches, tables on a PS in the same
// process. Without a GPU it says so, measures nothing, and writes JSON without lines. `write` takes
// a file and its text. Errors: as MeasureStep.
using WriteFunction = std::function<absl::Status(const std::string&, const std::string&)>;
absl::Status RunGpu(const GpuFlags& flags, const WriteFunction& write);

}  // namespace coxswain
