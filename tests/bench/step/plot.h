// A picture of where the time of a step goes, of what `coxswain-bench step --json` wrote.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain {

// For each line two bars, of CPU time a step: what was spent, by who spent it, and beside it the
// floors. The first one is as wide as the picture. Returns an SVG document.
// Errors: InvalidArgument for a text that is no such list.
absl::StatusOr<std::string> PlotSteps(absl::string_view json);

}  // namespace coxswain
