// A job that trains until its model is good enough, in a simulated world: the production
// coordinator, parameter servers and workers with their kernels, in virtual time, on workers of
// given speeds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coxswain/cluster.h"

namespace coxswain {

struct SimulatedTraining {
  Consistency consistency;
  int workers = 1;
  double straggler = 1;  // the first worker is this many times slower
  double learning_rate = 1;
  double target = 0.79;  // AUC
  int64_t batch = 64;
  // After these many batches, or this time, it has not reached the target.
  int64_t most_batches = 10000;
  absl::Duration most_time = absl::InfiniteDuration();
  int in_flight = 2;  // closures of a worker
  // What a task of a worker's pool takes in the mean; half of it is the same for all. A batch takes
  // a worker that is alone about 1.2 of these.
  absl::Duration piece = absl::Milliseconds(10);
  uint64_t seed = 1;
};

struct TrainingResult {
  bool reached = false;
  absl::Duration time;  // virtual, from the first batch on
  int64_t batches = 0;  // that were used
  int64_t surplus = 0;  // that steps did without, and that were visited later
  int64_t updates = 0;  // of the model
  double quality = 0;   // the last AUC
  uint64_t trace = 0;   // of all that happened in the world
};

// Errors: what a task says; Internal where the simulated world breaks one of its invariants.
absl::StatusOr<TrainingResult> Train(const SimulatedTraining& training);

}  // namespace coxswain
