// Paths, status and metadata, predictions.
#include "coordinator/serve/model_service.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "coordinator/predict/predictor.h"
#include "coordinator/serve/json_rows.h"
#include "nlohmann/json.hpp"
#include "runtime/data/names.h"

namespace coxswain::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kOk = 200, kBad = 400, kNotFound = 404, kNotAllowed = 405, kTooLarge = 413,
              kTooMany = 429, kFailed = 500, kUnavailable = 503;
constexpr char kPlain[] = "text/plain; charset=utf-8";
constexpr char kModels[] = "/v1/models";

Answer Error(int status, absl::string_view message) { return {status, ErrorBody(message)}; }

Answer Show(const Json& json) {
  return {kOk, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

// Of a program that asks by another method than the path has.
Answer WrongMethod(absl::string_view method, absl::string_view wanted) {
  return Error(kNotAllowed, absl::StrCat("wanted ", wanted, ", found ", method));
}

Json StatusOf(const SavedModel& model) {
  Json version;
  version["version"] = absl::StrCat(model.predictor().steps());
  version["state"] = "AVAILABLE";
  version["status"] = {{"error_code", "OK"}, {"error_message", ""}};
  return {{"model_version_status", Json::array({std::move(version)})}};
}

Json TensorInfo(const std::string& name, const char* dtype, bool list) {
  Json dims = Json::array({{{"size", "-1"}, {"name", ""}}});
  if (list) dims.push_back({{"size", "-1"}, {"name", ""}});
  return {{"dtype", dtype},
          {"tensor_shape", {{"dim", std::move(dims)}, {"unknown_rank", false}}},
          {"name", name}};
}

Json Outputs(SavedModel::Says says) {
  const auto numbers = [](const char* name, bool list) {
    return TensorInfo(name, "DT_FLOAT", list);
  };
  switch (says) {
    case SavedModel::Says::kNumber:
      return {{"prediction", numbers("prediction", false)}};
    case SavedModel::Says::kProbability:
      return {{"score", numbers("score", false)}, {"probability", numbers("probability", false)}};
    case SavedModel::Says::kClasses:
      return {{"classes", TensorInfo("classes", "DT_STRING", true)},
              {"scores", numbers("scores", true)},
              {"probabilities", numbers("probabilities", true)}};
    case SavedModel::Says::kItems:
      break;
  }
  return {{"items", TensorInfo("items", "DT_STRING", true)}, {"scores", numbers("scores", true)}};
}

Json MetadataOf(const SavedModel& model, const std::string& name) {
  Json inputs = Json::object();
  for (const RawColumn& column : model.columns()) {
    inputs[column.name] =
        TensorInfo(column.name, column.kind == RawColumn::Kind::kNumber ? "DT_DOUBLE" : "DT_STRING",
                   column.kind == RawColumn::Kind::kValues);
  }
  Json signature = {{"inputs", std::move(inputs)},
                    {"outputs", Outputs(model.says())},
                    {"method_name", "tensorflow/serving/predict"}};
  Json json;
  json["model_spec"] = {
      {"name", name}, {"signature_name", ""}, {"version", absl::StrCat(model.predictor().steps())}};
  json["metadata"]["signature_def"]["signature_def"]["serving_default"] = std::move(signature);
  return json;
}

int StatusFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return kBad;
    case absl::StatusCode::kOutOfRange:
      return kTooLarge;
    case absl::StatusCode::kResourceExhausted:
      return kUnavailable;
    default:
      return kFailed;
  }
}

}  // namespace

ModelService::ModelService(SavedModel model, ServiceOptions options)
    : options_(std::move(options)), admission_(options_.admission), model_(std::move(model)) {}

SavedModel ModelService::model() const {
  absl::MutexLock lock(&mutex_);
  return model_;
}

void ModelService::Replace(SavedModel model) {
  absl::MutexLock lock(&mutex_);
  std::swap(model_, model);  // the old one goes with its last request
}

void ModelService::StartDraining() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
}

Answer ModelService::Handle(absl::string_view method, absl::string_view path,
                            absl::string_view body) {
  const bool get = method == "GET" || method == "HEAD";
  if (path == "/healthz" || path == "/readyz" || path == "/metrics" || path == kModels) {
    if (!get) return WrongMethod(method, "GET");
    if (path == "/metrics") {
      return {kOk, metrics_.Text(model().predictor().steps()), "text/plain; version=0.0.4"};
    }
    if (path == kModels) return Show({{"models", {options_.name}}});
    absl::MutexLock lock(&mutex_);
    if (path == "/readyz" && draining_) return Error(kUnavailable, "the server is ending");
    return {kOk, "ok\n", kPlain};
  }
  absl::string_view rest = path;
  if (absl::ConsumePrefix(&rest, absl::StrCat(kModels, "/"))) return OfModel(method, rest, body);
  return Error(kNotFound, absl::StrCat("there is no ", data::Quoted(path)));
}

Answer ModelService::OfModel(absl::string_view method, absl::string_view rest,
                             absl::string_view body) {
  const SavedModel model = this->model();
  const size_t end = rest.find_first_of(":/");
  const absl::string_view name = rest.substr(0, end);
  if (name != options_.name) {
    return Error(kNotFound, absl::StrCat("there is no model ", data::Quoted(name), ", but ",
                                         data::Quoted(options_.name)));
  }
  rest.remove_prefix(name.size());
  if (absl::ConsumePrefix(&rest, "/versions/")) {
    const absl::string_view version = rest.substr(0, rest.find_first_of(":/"));
    const std::string there = absl::StrCat(model.predictor().steps());
    if (version != there) {
      return Error(kNotFound, absl::StrCat("there is no version ", data::Quoted(version),
                                           " of the model, but ", there));
    }
    rest.remove_prefix(version.size());
  }
  const bool get = method == "GET" || method == "HEAD";
  if (rest.empty()) return get ? Show(StatusOf(model)) : WrongMethod(method, "GET");
  if (rest == "/metadata") {
    return get ? Show(MetadataOf(model, options_.name)) : WrongMethod(method, "GET");
  }
  if (rest != ":predict") {
    return Error(kNotFound, absl::StrCat("a model has no ", data::Quoted(rest),
                                         ", but :predict and /metadata"));
  }
  if (method != "POST") return WrongMethod(method, "POST");
  const absl::Time start = absl::Now();
  int64_t rows = 0;
  Answer answer = Predict(model, body, &rows);
  metrics_.CountPrediction(answer.status, rows, absl::Now() - start);
  return answer;
}

Answer ModelService::Predict(const SavedModel& model, absl::string_view body, int64_t* rows) {
  const Admission::Place place = admission_.Enter();
  if (!place) return Error(kTooMany, "too many requests at once: try again later");
  const auto request = ParsePredictRequest(body, model.columns(), options_.max_rows);
  if (!request.ok()) return Error(StatusFor(request.status()), request.status().message());
  constexpr int64_t kItems = 10;
  const int64_t top = request->top > 0                           ? request->top
                      : model.says() == SavedModel::Says::kItems ? kItems
                                                                 : 1;
  const auto predictions = model.Predict(request->rows, top);
  if (!predictions.ok()) {
    return Error(StatusFor(predictions.status()), predictions.status().message());
  }
  *rows = static_cast<int64_t>(predictions->size());
  return {kOk, PredictResponse(*predictions, model.says(), request->columnar)};
}

}  // namespace coxswain::serve
