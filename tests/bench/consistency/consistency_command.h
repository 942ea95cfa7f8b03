// `coxswain-bench consistency`: its flags, and what it runs by them.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tests/bench/consistency/consistency.h"

namespace coxswain {

struct ConsistencyFlags {
  std::vector<std::string> shapes = {"talk", "dlrm"};
  std::vector<std::string> clusters = {
      "in-process:2x1", "in-process:2x2", "in-process:2x4", "2x1", "2x2", "2x4"};
  int64_t rows = 0;  // of each table at most; 0: the shape's
  ConsistencyOptions options;
  std::string json;        // "-": standard output
  bool want_json = false;  // filled in by the caller, by whether --json is there
};

struct ConsistencyCommand {
  CLI::App* command = nullptr;
  CLI::Option* json = nullptr;
};
ConsistencyCommand AddConsistencyCommand(CLI::App* app, ConsistencyFlags* flags);
// Writes JSON text to the place that --json names.
using WriteText = absl::Status (*)(const std::string& file, const std::string& text);
absl::Status RunConsistency(const ConsistencyFlags& flags, WriteText write);

}  // namespace coxswain
