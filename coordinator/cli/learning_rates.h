// The learning rates of a job's variables, as its summaries show them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "kernels/optimizers/learning_rate.h"

namespace coxswain::cli {

struct NamedRate {
  std::string name;
  double rate = 0;  // without the schedule
  kernels::LearningRateSchedule schedule;

  // Of the update after so many others.
  double After(int64_t updates) const { return rate * schedule.Factor(updates); }
};

// Each table's rate by the table's name, and the one rate of all other variables as "dense"; these
// by their names, too, where they have different ones. None for what is not trained.
std::vector<NamedRate> NamedRates(
    const std::vector<std::shared_ptr<const VariableInfo>>& variables);

}  // namespace coxswain::cli
