// What the benchmark of recovery prints.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/recovery/cost.h"
#include "tests/bench/recovery/recovery.h"

namespace coxswain {

// A line for each figure: median, best and worst of all runs.
std::string RecoveryTable(const RecoveryBench& bench, const std::vector<RecoveryFigures>& runs);
// A JSON array with an object for each run: the keys of the scripts for other systems (case, ps,
// workers, steps_per_bin_before, bins_while_one_is_down, seconds_from_restart_to_90_percent,
// scheduled, applied, bins) and ours.
std::string RecoveryJson(const RecoveryBench& bench, const std::vector<RecoveryFigures>& runs);

std::string CostTable(const CostBench& bench, const CostFigures& figures);
std::string CostJson(const CostBench& bench, const CostFigures& figures);

}  // namespace coxswain
