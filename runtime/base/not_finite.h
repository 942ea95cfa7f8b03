// The detail of an error about a number that is NaN or infinite where it must not be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace coxswain {

struct NotFinite {
  std::string variable;       // or table; empty: the message alone names it
  std::optional<int64_t> id;  // of the row; none: of a variable that is no table
};

// Attaches `detail` to a status that is not OK, beside what else it carries; returns it.
absl::Status WithNotFinite(absl::Status status, const NotFinite& detail);

// The detail that `status` carries, if any.
std::optional<NotFinite> GetNotFinite(const absl::Status& status);

}  // namespace coxswain
