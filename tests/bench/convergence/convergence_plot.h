// A picture of how long training takes to a given quality, by the number of workers.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace coxswain {

// One line of a panel: seconds by the number of workers; nullopt: not reached.
struct ConvergenceLine {
  std::string name;
  std::vector<std::optional<double>> seconds;
};

struct ConvergencePanel {
  std::string title;
  std::vector<ConvergenceLine> lines;
};

// An SVG document: panels side by side, both axes logarithmic, with the same scale. `workers`: that
// the points of all lines are of, ascending, at least one.
std::string PlotConvergence(const std::vector<int>& workers,
                            const std::vector<ConvergencePanel>& panels);

}  // namespace coxswain
