// `coxswain-bench scaling`: measures costs, checks the model against clusters of this machine, and
// prints what it predicts for larger ones, as the tables of docs/scaling.md.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tests/bench/coordinator/scaling_model.h"

namespace coxswain {

struct ScalingFlags {
  std::vector<std::string> shapes = {"talk", "dlrm"};
  double seconds = 4;
  int coordinator_workers = 100;  // with which a closure's cost is measured
  Machines machines;
  std::string json;
  bool want_json = false;
};

struct ScalingCommand {
  CLI::App* command = nullptr;
  CLI::Option* json = nullptr;
};

ScalingCommand AddScalingCommand(CLI::App* app, ScalingFlags* flags);
absl::Status RunScaling(const ScalingFlags& flags,
                        absl::Status (*write)(const std::string& file, const std::string& text));

}  // namespace coxswain
