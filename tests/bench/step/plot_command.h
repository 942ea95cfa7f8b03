// `coxswain-bench plot`.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace coxswain {

struct PlotFlags {
  std::string json;
  std::string out = "step.svg";
};
CLI::App* AddPlotCommand(CLI::App* app, PlotFlags* flags);
// Errors: InvalidArgument for a file that cannot be read or is no list of figures.
absl::Status RunPlot(const PlotFlags& flags);

}  // namespace coxswain
