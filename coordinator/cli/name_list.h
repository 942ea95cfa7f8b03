// Lists of names on a command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain::cli {

// "a,b" is two names. As in a CSV file, a name in quotes may hold commas, and "" is a quote there:
// `"Good, the Bad and the Ugly, The",Heat`.
// Errors: InvalidArgument for an empty name, or a quote that is not closed or not at the end.
absl::StatusOr<std::vector<std::string>> SplitNames(absl::string_view list);

}  // namespace coxswain::cli
