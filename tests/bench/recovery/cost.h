// What the guarantees cost a step: the same job with and without the log of closures and
// checkpoints, by turns; while nothing fails, or with workers that are killed.
//
// The ledger of the shards cannot be switched off; its share is measured by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/strategy.h"
#include "tests/bench/step/measure.h"

namespace coxswain {

struct CostBench {
  StepShape shape;
  ClusterShape cluster;  // of processes
  int in_flight = 2;
  int threads = 0;
  double every = 10;        // seconds between checkpoints
  double seconds = 20;      // of each turn
  int turns = 5;            // of each kind
  std::string checkpoints;  // an existing directory; what is written there is removed
  bool whole = false;       // all rows each time
  int kills = 0;            // of workers, in each turn with the guarantees
  DeviceChoice device = DeviceChoice::kAuto;
};

struct CostFigures {
  // Steps a second, by turn.
  std::vector<double> with, without;
  // with / without, by pairs of turns.
  std::vector<double> ratios;
  int64_t checkpoints = 0;                                 // written during the turns
  double checkpoint_seconds = 0, checkpoint_stall_ms = 0;  // of one
  int64_t checkpoint_bytes = 0;                            // of one
  // What the ledgers of all shards take of a step, in CPU time: measured on ledgers of this
  // process, and the number of shards that a step updates.
  double ledger_us_per_step = 0;
  int64_t shards = 0;
  int64_t scheduled = 0, applied = 0;  // of both jobs; applied as in RecoveryFigures
  int64_t kills = 0;                   // of all turns
  int64_t retried = 0;                 // closures that ran again
};

// Errors: as MeasureRecovery.
absl::StatusOr<CostFigures> MeasureCost(const CostBench& bench);

}  // namespace coxswain
