// Protobuf messages as readable JSON that gives back the very same message: integers of 64 bits and
// doubles are exact, and nothing is guessed. A message is an object with a key per field, by the
// fields' numbers; fields with default values are written too, so that people see them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace coxswain::checkpoint {

using Json = nlohmann::ordered_json;

// NaN and the infinities, for which JSON has no numbers, are text; bytes are base64.
Json MessageToJson(const google::protobuf::Message& message);

// Keys that are not there leave their fields alone. Errors: InvalidArgument naming the key that is
// unknown here, of another type or out of range.
absl::Status MessageFromJson(const Json& json, google::protobuf::Message* message);

// False, and `*value` is as it was, unless `json` (of either Json) is an integer that fits.
template <typename AnyJson, typename Int>
bool ReadInteger(const AnyJson& json, Int* value) {
  if (json.is_number_unsigned()) {
    const auto found = json.template get<uint64_t>();
    if (found > static_cast<uint64_t>(std::numeric_limits<Int>::max())) return false;
    *value = static_cast<Int>(found);
    return true;
  }
  if (!json.is_number_integer()) return false;
  const auto found = json.template get<int64_t>();
  if (found < 0) {
    if (std::is_unsigned_v<Int>) return false;
    if (found < static_cast<int64_t>(std::numeric_limits<Int>::min())) return false;
  } else if (static_cast<uint64_t>(found) >
             static_cast<uint64_t>(std::numeric_limits<Int>::max())) {
    return false;
  }
  *value = static_cast<Int>(found);
  return true;
}

// `json` in a message: cut short, and on one line.
template <typename AnyJson>
std::string Shortly(const AnyJson& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  const std::string text = json.dump(-1, ' ', true, AnyJson::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

// Whether lists and objects lie at most so deep in each other; `text` need not be JSON.
bool JsonDepthIsAtMost(absl::string_view text, int max_depth);

// `text` as JSON; a discarded value when it is not, or is nested so deeply that walking it would
// need more stack than there is.
Json ParseJson(absl::string_view text, int max_depth = 200);

}  // namespace coxswain::checkpoint
