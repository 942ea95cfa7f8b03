// Values; instances and inputs; answers.
#include "coordinator/serve/json_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/predict/raw_rows.h"
#include "coordinator/serve/json_object.h"
#include "coordinator/serve/most_choices.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/checkpoint/message_json.h"
#include "runtime/data/names.h"

namespace coxswain::serve {
namespace {

using checkpoint::Json;

constexpr int kMaxDepth = 16;
constexpr int64_t kMaxTop = 1000;
constexpr double kMost64Bits = 9223372036854775808.0;

template <typename... Args>
absl::Status Wrong(const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

// The text of a value that is no list. Of true and false it is what files of JSON lines and Parquet
// have of them: as a number 1 and 0, as a value of a category the words.
absl::StatusOr<std::string> TextOfScalar(const RequestJson& json, bool number) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_boolean() && number) return std::string(json.get<bool>() ? "1" : "0");
  if (json.is_boolean()) return std::string(json.get<bool>() ? "true" : "false");
  if (json.is_number_unsigned()) return absl::StrCat(json.get<uint64_t>());
  if (json.is_number_integer()) return absl::StrCat(json.get<int64_t>());
  if (json.is_number()) {
    // It may have been an integer of more digits than a double has.
    if (number || std::abs(json.get<double>()) < kMost64Bits) {
      return predict::TextOf(json.get<double>());
    }
    return Wrong("wanted a text or a number that 64 bits hold, found ", checkpoint::Shortly(json));
  }
  return Wrong("wanted a text or a number, found ", checkpoint::Shortly(json));
}

absl::StatusOr<RawValue> ValueOf(const RequestJson& json, bool number) {
  if (json.is_null()) return RawValue();
  if (!json.is_array()) {
    ASSIGN_OR_RETURN(std::string text, TextOfScalar(json, number));
    return RawValue(std::move(text));
  }
  std::vector<std::string> values;
  for (const RequestJson& element : json) {
    values.emplace_back();
    if (element.is_null()) continue;  // it is missing
    ASSIGN_OR_RETURN(values.back(), TextOfScalar(element, number));
  }
  return RawValue(std::move(values));
}

absl::Status TooMany(size_t rows, int64_t max_rows) {
  return absl::OutOfRangeError(
      absl::StrCat("wanted at most ", max_rows, " rows in a request, found ", rows));
}

// The value of a key of an object, or, where there is no such key, of the path that it spells, as
// in files of JSON lines: "device.os" is `os` of the object `device`. Null: there is none.
const RequestJson* Find(const RequestJson& object, const std::string& key) {
  if (const auto found = object.find(key); found != object.end()) return &*found;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    const auto inner = object.find(key.substr(0, dot));
    if (inner == object.end() || !inner->is_object()) continue;
    if (const RequestJson* const found = Find(*inner, key.substr(dot + 1))) return found;
  }
  return nullptr;
}

absl::Status ReadInstances(const RequestJson& instances, const std::vector<RawColumn>& columns,
                           int64_t max_rows, RawRows* rows) {
  if (!instances.is_array()) return Wrong("instances: wanted a list of rows");
  if (static_cast<int64_t>(instances.size()) > max_rows) {
    return TooMany(instances.size(), max_rows);
  }
  rows->rows.reserve(instances.size());
  for (size_t i = 0; i < instances.size(); ++i) {
    const RequestJson& instance = instances[i];
    if (!instance.is_object() && columns.size() != 1) {
      return Wrong("instances[", i, "]: wanted an object with the model's columns, found ",
                   checkpoint::Shortly(instance));
    }
    std::vector<RawValue>& row = rows->rows.emplace_back();
    row.reserve(columns.size());
    bool any = columns.empty();
    for (const RawColumn& column : columns) {
      const RequestJson* const found =
          instance.is_object() ? Find(instance, column.name) : &instance;
      any = any || found != nullptr;
      if (found == nullptr && !column.optional) {
        return Wrong("instances[", i, "] lacks the column ", data::Quoted(column.name));
      }
      absl::StatusOr<RawValue> value = RawValue();
      if (found != nullptr) value = ReadRawValue(column, *found);
      if (!value.ok()) {
        return Wrong("instances[", i, "], column ", data::Quoted(column.name), ": ",
                     value.status().message());
      }
      row.push_back(*std::move(value));
    }
    if (!any) return Wrong("instances[", i, "] has none of the model's columns");
  }
  return absl::OkStatus();
}

absl::Status ReadInputs(const RequestJson& inputs, const std::vector<RawColumn>& columns,
                        int64_t max_rows, RawRows* rows) {
  const bool itself = inputs.is_array() && columns.size() == 1;
  if (!inputs.is_object() && !itself) {
    return Wrong("inputs: wanted an object with a list for each of the model's columns");
  }
  for (size_t c = 0; c < columns.size(); ++c) {
    const std::string& name = columns[c].name;
    const auto found = itself ? inputs.end() : inputs.find(name);
    if (!itself && found == inputs.end()) {
      return Wrong("inputs lacks the column ", data::Quoted(name));
    }
    const RequestJson& values = itself ? inputs : *found;
    if (!values.is_array()) return Wrong("inputs, column ", data::Quoted(name), ": wanted a list");
    if (static_cast<int64_t>(values.size()) > max_rows) return TooMany(values.size(), max_rows);
    if (c == 0) rows->rows.resize(values.size());
    if (values.size() != rows->rows.size()) {
      return Wrong("inputs: column ", data::Quoted(columns[0].name), " has ", rows->rows.size(),
                   " rows, column ", data::Quoted(name), " has ", values.size());
    }
    for (size_t r = 0; r < values.size(); ++r) {
      auto value = ReadRawValue(columns[c], values[r]);
      if (!value.ok()) {
        return Wrong("inputs, column ", data::Quoted(name), ", row ", r, ": ",
                     value.status().message());
      }
      rows->rows[r].push_back(*std::move(value));
    }
  }
  return absl::OkStatus();
}

// What is said of one row; `says` is not kNumber.
Json ObjectOf(const Prediction& prediction, SavedModel::Says says) {
  Json object = Json::object();
  if (says == SavedModel::Says::kProbability) {
    object["score"] = prediction.score;
    object["probability"] = prediction.value;
    return object;
  }
  Json names = Json::array(), scores = Json::array(), chances = Json::array();
  for (const RankedChoice& choice : prediction.choices) {
    names.push_back(choice.name);
    scores.push_back(choice.score);
    chances.push_back(choice.probability);
  }
  const bool classes = says == SavedModel::Says::kClasses, tasks = says == SavedModel::Says::kTasks;
  object[classes ? "classes" : tasks ? "tasks" : "items"] = std::move(names);
  object["scores"] = std::move(scores);
  if (classes) object["probabilities"] = std::move(chances);
  if (tasks) object["predictions"] = std::move(chances);
  return object;
}

std::string Text(const Json& json) {
  // Names may be any bytes of the data.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

// A column of a model has one value for each row: a list of one element is that one, as shapes [1]
// are in TensorFlow.
absl::StatusOr<RawValue> ReadRawValue(const RawColumn& column, const RequestJson& json) {
  const bool single = column.kind != RawColumn::Kind::kValues;
  return ValueOf(single && json.is_array() && json.size() == 1 ? json[0] : json,
                 column.kind == RawColumn::Kind::kNumber);
}

absl::StatusOr<PredictRequest> ParsePredictRequest(absl::string_view body,
                                                   const std::vector<RawColumn>& columns,
                                                   int64_t max_rows) {
  ASSIGN_OR_RETURN(const RequestJson json, ParseObject(body, kMaxDepth));
  RETURN_IF_ERROR(CheckKeys(json, "", {"instances", "inputs", "signature_name", "top"}));
  const bool instances = json.contains("instances"), inputs = json.contains("inputs");
  if (instances == inputs) {
    return Wrong("wanted one of \"instances\" and \"inputs\", found ", instances ? "both" : "none");
  }
  PredictRequest request;
  request.columnar = inputs;
  if (const auto name = json.find("signature_name");
      name != json.end() && *name != "" && *name != "serving_default") {
    return Wrong("signature_name: wanted \"serving_default\", found ", checkpoint::Shortly(*name));
  }
  if (const auto top = json.find("top"); top != json.end()) {
    if (!checkpoint::ReadInteger(*top, &request.top) || request.top < 1 || request.top > kMaxTop) {
      return Wrong("top: wanted 1 to ", kMaxTop, ", found ", checkpoint::Shortly(*top));
    }
  }
  for (const RawColumn& column : columns) request.rows.columns.push_back(column.name);
  RETURN_IF_ERROR(instances ? ReadInstances(json["instances"], columns, max_rows, &request.rows)
                            : ReadInputs(json["inputs"], columns, max_rows, &request.rows));
  RETURN_IF_ERROR(CheckChoices(request.rows.rows.size(), "top", request.top));
  return request;
}

std::string PredictResponse(const std::vector<Prediction>& predictions, SavedModel::Says says,
                            bool columnar) {
  const bool number = says == SavedModel::Says::kNumber;
  Json all = Json::array();
  for (const Prediction& prediction : predictions) {
    all.push_back(number ? Json(prediction.value) : ObjectOf(prediction, says));
  }
  if (!columnar) return Text({{"predictions", std::move(all)}});
  if (number) return Text({{"outputs", std::move(all)}});
  // The keys are there also where there is no row.
  Json outputs = ObjectOf(Prediction(), says);
  for (Json& list : outputs) list = Json::array();
  for (const Json& object : all) {
    for (const auto& [key, value] : object.items()) outputs[key].push_back(value);
  }
  return Text({{"outputs", std::move(outputs)}});
}

std::string ErrorBody(absl::string_view message) { return Text({{"error", std::string(message)}}); }

}  // namespace coxswain::serve
