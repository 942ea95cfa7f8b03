// What a job under fire has proved: held against its own report and that of a run without faults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/chaos/chaos_spec.h"
#include "coordinator/chaos/supervisor.h"
#include "nlohmann/json.hpp"

namespace coxswain::chaos {

struct ChaosSummary {
  // docs/report.md, with the member `chaos` of docs/chaos.md; null when the job left no report.
  nlohmann::ordered_json report;
  // What must not be, in words; empty when every promise was kept.
  std::vector<std::string> broken;
};

// `report` is the job's (null: none), `baseline` that of the run without faults (null: none).
ChaosSummary Summarize(const ChaosSpec& spec, const SupervisorResult& result,
                       nlohmann::ordered_json report, const nlohmann::ordered_json& baseline);

// The table that is printed at the end.
std::string FormatSummary(const ChaosSummary& summary);

}  // namespace coxswain::chaos
