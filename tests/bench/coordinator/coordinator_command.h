// `coxswain-bench coordinator`: its flags, and what it runs by them.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tests/bench/coordinator/coordinator_bench.h"

namespace coxswain {

struct CoordinatorFlags {
  std::vector<int> workers = {1, 10, 100, 1000};
  CoordinatorOptionsOfBench options;
  bool here = false;  // measure in this process: the first of `workers` alone
  std::string json;   // "-": standard output
  bool want_json = false;
  int first = 0, count = 0;  // of fake-workers
};

struct CoordinatorCommands {
  CLI::App* bench = nullptr;
  CLI::App* fake_workers = nullptr;  // what the benchmark starts for itself
  CLI::Option* json = nullptr;
};

CoordinatorCommands AddCoordinatorCommands(CLI::App* app, CoordinatorFlags* flags);
// In a process of its own: what an earlier measurement has left in memory is not counted.
absl::StatusOr<CoordinatorFigures> MeasureInChild(const CoordinatorOptionsOfBench& options);
// Writes JSON text to the place that --json names.
absl::Status RunCoordinatorBench(const CoordinatorFlags& flags,
                                 absl::Status (*write)(const std::string& file,
                                                       const std::string& text));

}  // namespace coxswain
