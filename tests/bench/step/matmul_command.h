// A layer whose matrix is multiplied on the PS, against the same layer that reads it: the benchmark
// matmul.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tests/bench/step/measure.h"

namespace coxswain {

struct MatMulFlags {
  int64_t batch = 32, in = 1024, out = 4096;
  std::vector<std::string> clusters = {"2x1"};
  MeasureOptions options;
};

CLI::App* AddMatMulCommand(CLI::App* app, MatMulFlags* flags);

// Prints a line for each way and cluster. Errors: as MeasureStep.
absl::Status RunMatMul(const MatMulFlags& flags);

}  // namespace coxswain
