// What the guarantees cost a step while nothing fails: the same job with and without the log of
// closures and checkpoints, by turns.
//
// The ledger of the shards cannot be switched off; its share is measured by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
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
};

// Errors: as MeasureRecovery.
absl::StatusOr<CostFigures> MeasureCost(const CostBench& bench);

}  // namespace coxswain
