// `coxswain-bench recovery`: its flags, and what it runs by them.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace coxswain {

struct RecoveryFlags {
  std::string shape = "talk";
  int64_t rows = 0;     // of each table; 0: the shape's
  std::string cluster;  // PSxW; empty: 2x3, or 2x2 with cost
  int in_flight = 2;
  int threads = 0;
  int repeat = 5;
  bool cost = false;
  double seconds = 20;  // with cost: of each turn
  double every = 10;    // with cost: between checkpoints
  bool whole = false;
  int kills = 0;  // with cost: in each turn
  double before = 4, down = 3, after = 5;
  std::string directory;   // for checkpoints; empty: a temporary one
  std::string json;        // "-": standard output
  bool want_json = false;  // filled in by the caller, by whether --json is there
};

CLI::App* AddRecoveryCommand(CLI::App* app, RecoveryFlags* flags);
// Writes JSON text to the place that --json names.
using WriteText = absl::Status (*)(const std::string& file, const std::string& text);
absl::Status RunRecovery(const RecoveryFlags& flags, WriteText write);

}  // namespace coxswain
