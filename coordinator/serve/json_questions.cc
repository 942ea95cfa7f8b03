// The common parts of requests; suggestions; neighbours; versions.
#include "coordinator/serve/json_questions.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/serve/json_object.h"
#include "coordinator/serve/json_rows.h"
#include "coordinator/serve/most_choices.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/checkpoint/message_json.h"
#include "runtime/data/names.h"

namespace coxswain::serve {
namespace {

using checkpoint::Json;

constexpr int kMaxDepth = 8;
constexpr int64_t kMaxK = 1000;
// A list in an instance: names of items, or words of a sum.
constexpr size_t kMaxNames = 10'000;

template <typename... Args>
absl::Status Wrong(const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

absl::StatusOr<std::string> ReadName(const RequestJson& json, const std::string& where) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_unsigned()) return absl::StrCat(json.get<uint64_t>());
  if (json.is_number_integer()) return absl::StrCat(json.get<int64_t>());
  return Wrong(where, ": wanted a text or a whole number, found ", checkpoint::Shortly(json));
}

absl::StatusOr<std::vector<std::string>> ReadNames(const RequestJson& json,
                                                   const std::string& where) {
  if (!json.is_array()) return Wrong(where, ": wanted a list, found ", checkpoint::Shortly(json));
  if (json.size() > kMaxNames) {
    return Wrong(where, ": wanted at most ", kMaxNames, " names, found ", json.size());
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < json.size(); ++i) {
    ASSIGN_OR_RETURN(names.emplace_back(), ReadName(json[i], absl::StrCat(where, "[", i, "]")));
  }
  return names;
}

absl::Status ReadK(const RequestJson& json, int64_t* k) {
  const auto found = json.find("k");
  if (found == json.end()) return absl::OkStatus();
  if (checkpoint::ReadInteger(*found, k) && *k >= 1 && *k <= kMaxK) return absl::OkStatus();
  return Wrong("k: wanted 1 to ", kMaxK, ", found ", checkpoint::Shortly(*found));
}

// A key that need not be there.
absl::Status ReadBool(const RequestJson& json, const char* key, bool* value) {
  const auto found = json.find(key);
  if (found == json.end()) return absl::OkStatus();
  if (!found->is_boolean()) {
    return Wrong(key, ": wanted true or false, found ", checkpoint::Shortly(*found));
  }
  *value = found->get<bool>();
  return absl::OkStatus();
}

absl::Status CheckInstances(const RequestJson& json, int64_t max_rows) {
  const auto found = json.find("instances");
  if (found == json.end() || !found->is_array()) return Wrong("wanted \"instances\", a list");
  if (static_cast<int64_t>(found->size()) <= max_rows) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("wanted at most ", max_rows, " instances in a request, found ", found->size()));
}

// Values of all columns; a list that is not there is empty.
absl::StatusOr<std::vector<RawValue>> ReadValues(const RequestJson& json, const std::string& where,
                                                 const std::vector<RawColumn>& columns) {
  if (!json.is_object()) {
    return Wrong(where, ": wanted an object, found ", checkpoint::Shortly(json));
  }
  std::vector<std::string> names;
  std::vector<RawValue> values;
  for (const RawColumn& column : columns) {
    names.push_back(column.name);
    const std::string at = absl::StrCat(where, ".", column.name);
    const auto found = json.find(column.name);
    if (found != json.end()) {
      auto value = ReadRawValue(column, *found);
      if (!value.ok()) return Wrong(at, ": ", value.status().message());
      values.push_back(*std::move(value));
    } else if (column.kind == RawColumn::Kind::kValues) {
      values.emplace_back(std::vector<std::string>());
    } else {
      return Wrong(where, " lacks ", data::Quoted(column.name));
    }
  }
  RETURN_IF_ERROR(CheckKeys(json, where, names));
  return values;
}

absl::StatusOr<RecommendRequest::For> ReadFor(const RequestJson& json, const std::string& where,
                                              const std::vector<RawColumn>& columns) {
  RecommendRequest::For whom;
  int keys = 0;
  for (const char* key : {"user", "items", "values"}) {
    keys += json.is_object() && json.contains(key) ? 1 : 0;
  }
  if (keys != 1) {
    return Wrong(where, ": wanted an object with \"user\", \"items\" or \"values\", found ",
                 checkpoint::Shortly(json));
  }
  RETURN_IF_ERROR(CheckKeys(json, where, {"user", "items", "values"}));
  if (json.contains("values")) {
    ASSIGN_OR_RETURN(whom.values,
                     ReadValues(json["values"], absl::StrCat(where, ".values"), columns));
  } else if (json.contains("user")) {
    ASSIGN_OR_RETURN(whom.user, ReadName(json["user"], absl::StrCat(where, ".user")));
  } else {
    ASSIGN_OR_RETURN(whom.items, ReadNames(json["items"], absl::StrCat(where, ".items")));
  }
  return whom;
}

absl::StatusOr<model::NamedRows::Question> ReadQuestion(const RequestJson& json,
                                                        const std::string& where) {
  model::NamedRows::Question question;
  if (!json.is_object()) {
    ASSIGN_OR_RETURN(question.text, ReadName(json, where));
    question.terms.emplace_back(question.text, 1.0);
    return question;
  }
  RETURN_IF_ERROR(CheckKeys(json, where, {"plus", "minus"}));
  for (const auto& [key, sign] : {std::pair{"plus", 1.0}, std::pair{"minus", -1.0}}) {
    const auto found = json.find(key);
    if (found == json.end()) continue;
    ASSIGN_OR_RETURN(auto words, ReadNames(*found, absl::StrCat(where, ".", key)));
    for (std::string& word : words) question.terms.emplace_back(std::move(word), sign);
  }
  if (question.terms.empty()) return Wrong(where, ": wanted words in \"plus\" or \"minus\"");
  return question;
}

}  // namespace

absl::StatusOr<RecommendRequest> ParseRecommendRequest(absl::string_view body,
                                                       const std::vector<RawColumn>& columns,
                                                       int64_t max_rows) {
  ASSIGN_OR_RETURN(const RequestJson json, ParseObject(body, kMaxDepth));
  RETURN_IF_ERROR(CheckKeys(json, "", {"instances", "k", "exclude_known", "exact"}));
  RETURN_IF_ERROR(CheckInstances(json, max_rows));
  RecommendRequest request;
  RETURN_IF_ERROR(ReadK(json, &request.k));
  RETURN_IF_ERROR(ReadBool(json, "exclude_known", &request.exclude_known));
  RETURN_IF_ERROR(ReadBool(json, "exact", &request.exact));
  const RequestJson& instances = json["instances"];
  RETURN_IF_ERROR(CheckChoices(instances.size(), "k", request.k));
  for (size_t i = 0; i < instances.size(); ++i) {
    ASSIGN_OR_RETURN(request.instances.emplace_back(),
                     ReadFor(instances[i], absl::StrCat("instances[", i, "]"), columns));
  }
  return request;
}

absl::StatusOr<NearestRequest> ParseNearestRequest(absl::string_view body, int64_t max_rows) {
  ASSIGN_OR_RETURN(const RequestJson json, ParseObject(body, kMaxDepth));
  RETURN_IF_ERROR(CheckKeys(json, "", {"instances", "k", "table", "exact"}));
  RETURN_IF_ERROR(CheckInstances(json, max_rows));
  NearestRequest request;
  RETURN_IF_ERROR(ReadK(json, &request.k));
  RETURN_IF_ERROR(ReadBool(json, "exact", &request.exact));
  if (const auto table = json.find("table"); table != json.end()) {
    if (!table->is_string()) return Wrong("table: wanted a name");
    request.table = table->get<std::string>();
  }
  const RequestJson& instances = json["instances"];
  RETURN_IF_ERROR(CheckChoices(instances.size(), "k", request.k));
  for (size_t i = 0; i < instances.size(); ++i) {
    ASSIGN_OR_RETURN(request.instances.emplace_back(),
                     ReadQuestion(instances[i], absl::StrCat("instances[", i, "]")));
  }
  return request;
}

absl::StatusOr<std::optional<int64_t>> ParseVersionRequest(absl::string_view body) {
  ASSIGN_OR_RETURN(const RequestJson json, ParseObject(body, kMaxDepth));
  RETURN_IF_ERROR(CheckKeys(json, "", {"version"}));
  const auto found = json.find("version");
  if (found == json.end()) return Wrong("wanted \"version\": a number of steps, or \"newest\"");
  if (*found == "newest") return std::optional<int64_t>();
  int64_t version = 0;
  // As a text it is what the status and the answers of :use say.
  const bool read = found->is_string() ? absl::SimpleAtoi(found->get<std::string>(), &version)
                                       : checkpoint::ReadInteger(*found, &version);
  if (!read || version < 0) {
    return Wrong("version: wanted a number of steps, or \"newest\", found ",
                 checkpoint::Shortly(*found));
  }
  return std::optional<int64_t>(version);
}

std::string ScoredResponse(const std::vector<std::vector<Scored>>& answers, const char* names,
                           const char* scores) {
  Json all = Json::array();
  for (const std::vector<Scored>& answer : answers) {
    Json list = Json::array(), numbers = Json::array();
    for (const Scored& one : answer) {
      list.push_back(one.name);
      numbers.push_back(one.score);
    }
    all.push_back({{names, std::move(list)}, {scores, std::move(numbers)}});
  }
  // Names may be any bytes of the data.
  return Json{{"predictions", std::move(all)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace coxswain::serve
