#include "coordinator/serve/json_object.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "runtime/data/names.h"

namespace coxswain::serve {

absl::StatusOr<checkpoint::Json> ParseObject(absl::string_view body, int max_depth) {
  checkpoint::Json json = checkpoint::ParseJson(body, max_depth);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the body is no JSON object: ", checkpoint::WhyNotJson(body, max_depth)));
  }
  if (!json.is_object()) return absl::InvalidArgumentError("the body is no JSON object");
  if (const auto key = checkpoint::RepeatedKey(body, json)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the body has an object with the key ", data::Quoted(*key), " twice"));
  }
  return json;
}

absl::Status CheckKeys(const checkpoint::Json& object, const std::string& where,
                       const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (absl::c_linear_search(known, key)) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, where.empty() ? "" : ": ",
                                                   "there is no key ", data::Quoted(key), "; ",
                                                   data::Alternatives(key, known)));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::serve
