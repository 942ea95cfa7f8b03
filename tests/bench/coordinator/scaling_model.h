// A model of clusters that are larger than what can be measured here: what a step costs each role,
// taken from measurements, and what bounds the rate. docs/scaling.md states it in words.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/floors/floors.h"
#include "tests/bench/step/measure.h"

namespace coxswain {

// CPU milliseconds of a step, all machines' cores alike.
struct StepCosts {
  double products_ms = 0;  // flops / the rate of products
  double rows_ms = 0;      // rows x (gather + update)
  double frame_ms = 0;     // a small frame on a bare stream, at each end
  double frames = 0;       // between a worker and one PS
  // A worker, and all PS together: what does not depend on the number of PS, products and rows
  // among it, and what each PS adds, frames among it.
  double worker_ms = 0, worker_per_ps_ms = 0;
  double ps_ms = 0, ps_per_ps_ms = 0;
  double coordinator_ms = 0;
  double bytes_to_ps = 0, bytes_from_ps = 0;  // all PS together
};

// From a step that was measured with one worker on one PS and on several, what lies beneath it, and
// what a small frame costs both ends together.
StepCosts TakeCosts(const Figures& one_ps, const Figures& several_ps, const Floors& floors,
                    double frame_both_ends_ms, double coordinator_ms);

struct Machines {
  double cores = 2;          // of each task's machine
  double network_gbps = 10;  // bits, each way
};

struct PredictedRate {
  int ps = 1, workers = 1;
  double steps_per_second = 0;
  double cpu_ms = 0;                                             // of a step, all tasks
  std::string bound;                                             // what gives this rate
  double worker_share = 0, ps_share = 0, coordinator_share = 0;  // how busy their cores are
};

// Each task on a machine of its own. Everything overlaps, so the busiest of worker, PS, coordinator
// and network sets the rate.
PredictedRate Predict(const StepCosts& costs, int ps, int workers, const Machines& machines);
// All tasks on one machine, whose cores are all that there is.
PredictedRate PredictShared(const StepCosts& costs, int ps, int workers, double cores);

}  // namespace coxswain
