// A kind of simulated world: what is trained, on what cluster, under which faults. A seed picks one
// world of the kind.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/faults.h"
#include "tests/sim/job.h"

namespace coxswain::sim {

struct Scenario {
  JobOptions job;
  FaultOptions faults;
  Site::Options site;
  std::unique_ptr<Workload> workload;
  // Faults end then, at the latest.
  absl::Duration faults_for = absl::Seconds(15);
  // After the last fault the job is finished within this.
  absl::Duration patience = absl::Seconds(240);
};
using MakeScenario = std::function<Scenario(Random* random)>;

struct Outcome {
  std::string violation;  // empty: all is well
  uint64_t trace_hash = 0;
  uint64_t events = 0;
  absl::Duration time;  // virtual
  int64_t frame_messages = 0;
  Job::Totals totals;
  std::map<std::string, int64_t> faults;
  std::map<std::string, int64_t> fault_points;
};

Outcome RunWorld(const MakeScenario& make, uint64_t seed);

// Which worlds of a kind to run.
struct SeedsOptions {
  std::string tag;  // of the test case, for the line that replays a world
  int64_t first = 1;
  int64_t count = 1000;
  // Always run, before the others: worlds in which something was found once.
  std::vector<int64_t> known = {};
  std::string program = "test_sim";
  // The number is meant as it is: COXSWAIN_SIM_SEEDS does not change it.
  bool exactly = false;
};

// Runs worlds `first`, `first` + 1, ...; those whose seed is a multiple of 20 twice, to see that
// nothing but the seed matters. Ends at the first that fails and prints one line that replays it.
// Environment: COXSWAIN_SIM_SEED runs that one only; COXSWAIN_SIM_SEEDS another number of them,
// COXSWAIN_SIM_FIRST from another one on; COXSWAIN_SIM_TRACE=1 prints what happens.
struct SeedsResult {
  int64_t worlds = 0;
  int64_t run_twice = 0;
  uint64_t trace_hash = 0;  // of all worlds
  int64_t failed_seed = -1;
  std::string violation;
  std::string replay;  // the line, if one failed
  Outcome sum;         // of all
};
SeedsResult RunSeeds(const SeedsOptions& options, const MakeScenario& make);

}  // namespace coxswain::sim
