// What the benchmark of the step prints.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/step/measure.h"

namespace coxswain {

// Two lines; the table's columns fit those of TableRow.
std::string TableHead();
std::string TableRow(const Figures& figures);
// What was reached beside the floors, a line for each that has floors, with a head and a line of
// explanation; empty when none has.
std::string FloorTable(const std::vector<Figures>& all);
// A JSON array with an object for each: the peers' keys (case, ps, workers, pack, threads,
// steps_per_second, best_steps_per_second, examples_per_step, cpu_ms_per_step by task, steps,
// seconds, closure_latency_ms_median) and ours, among them floor_... (see floors.h).
std::string ToJson(const std::vector<Figures>& all);

}  // namespace coxswain
