// What describes a user, as --value has it on a command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coxswain/saved_model.h"

namespace coxswain::cli {

// Values parallel to `columns`, of pairs NAME=VALUE: a list's values are separated by commas, as
// SplitNames has them, and "NAME=" is an empty list, as is one that is not given. Errors:
// InvalidArgument for a text that is no pair, a name that is no column or is there twice, and a
// column that is not given.
absl::StatusOr<std::vector<RawValue>> ValuesOf(absl::Span<const RawColumn> columns,
                                               absl::Span<const std::string> pairs);

}  // namespace coxswain::cli
