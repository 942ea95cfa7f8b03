// The body of a request: a JSON object, with the keys that are known and no others.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/checkpoint/message_json.h"

namespace coxswain::serve {

// Errors: InvalidArgument, with line and column where the body is no JSON; nested deeper; a key
// that an object has twice, of which each reader would take another value.
absl::StatusOr<checkpoint::Json> ParseObject(absl::string_view body, int max_depth);

// `where`: the object's place in the body, empty for the body itself. Errors: InvalidArgument for a
// key that is not known, because it would have no effect.
absl::Status CheckKeys(const checkpoint::Json& object, const std::string& where,
                       const std::vector<std::string>& known);

}  // namespace coxswain::serve
