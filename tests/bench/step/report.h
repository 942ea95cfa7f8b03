// What the benchmark of the step prints.
#pragma once

#include <string>

#include "tests/bench/step/measure.h"

namespace coxswain {

// Two lines; the table's columns fit those of TableRow.
std::string TableHead();
std::string TableRow(const Figures& figures);
// A JSON array with an object for each: the peers' keys (case, ps, workers, pack, threads,
// steps_per_second, best_steps_per_second, examples_per_step, cpu_ms_per_step by task, steps,
// seconds, closure_latency_ms_median) and ours.
std::string ToJson(const std::vector<Figures>& all);

}  // namespace coxswain
