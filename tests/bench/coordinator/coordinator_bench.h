// One coordinator and many workers that answer at once: what a closure costs it, what a worker
// costs it, and how long it takes until all are there and have a plan.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain {

struct CoordinatorOptionsOfBench {
  int workers = 1;
  int variables = 500;  // of the plan
  double seconds = 3;   // of closures, and of idling
  int in_flight = 2;
};

struct CoordinatorFigures {
  int workers = 0;
  int variables = 0;
  double connect_seconds = 0;  // from the start until all workers are set up
  double plan_seconds = 0;     // until all have the plan of all variables
  double closures_per_second = 0;
  double cpu_us_per_closure = 0;  // of the coordinator's process
  double idle_cpu_share = 0;      // of one core, with all connected and nothing to do
  double bytes_per_worker = 0;    // resident, at the end
};

// In this process, which should be a fresh one.
absl::StatusOr<CoordinatorFigures> MeasureCoordinator(const CoordinatorOptionsOfBench& options);

std::string CoordinatorTable(const std::vector<CoordinatorFigures>& all);
std::string CoordinatorJson(const std::vector<CoordinatorFigures>& all);
absl::StatusOr<CoordinatorFigures> ParseCoordinatorFigures(const std::string& json);

}  // namespace coxswain
