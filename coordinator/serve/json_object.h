// The body of a request: a JSON object, with the keys that are known and no others.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace coxswain::serve {

// Finds a key without looking at all others, as an ordered object does: a body may have a million.
using RequestJson = nlohmann::json;

// Errors: InvalidArgument, with line and column where the body is no JSON; lists and objects nested
// deeper; a key that an object has twice, of which each reader would take another value.
absl::StatusOr<RequestJson> ParseObject(absl::string_view body, int max_depth);

// `where`: the object's place in the body, empty for the body itself. Errors: InvalidArgument for a
// key that is not known, because it would have no effect.
absl::Status CheckKeys(const RequestJson& object, const std::string& where,
                       const std::vector<std::string>& known);

}  // namespace coxswain::serve
