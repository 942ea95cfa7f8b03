// Health; paths; status and metadata; predictions, suggestions, neighbours; another version.
#include "coordinator/serve/model_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "coordinator/predict/predictor.h"
#include "coordinator/serve/json_questions.h"
#include "coordinator/serve/json_rows.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/env/compute_pool.h"
#include "runtime/env/lost_pages.h"

namespace coxswain::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kOk = 200, kBad = 400, kForbidden = 403, kNotFound = 404, kNotAllowed = 405,
              kTooLarge = 413, kTooMany = 429, kFailed = 500, kUnavailable = 503;
constexpr char kPlain[] = "text/plain; charset=utf-8";
constexpr char kModels[] = "/v1/models";
constexpr char kNoModelYet[] = "there is no model yet: the job has not written a checkpoint";

constexpr char kCutShort[] =
    "a file of the model was cut short while it was served: save the model again";

Answer Error(int status, absl::string_view message) { return {status, ErrorBody(message)}; }

Answer Show(const Json& json) {
  return {kOk, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

// For a request with a method that the path does not have.
Answer WrongMethod(absl::string_view method, absl::string_view wanted) {
  return Error(kNotAllowed, absl::StrCat("wanted ", wanted, ", found ", method));
}

// Null: the server waits for a model. TensorFlow Serving's clients look at the versions, KServe's
// at `ready`.
Json StatusOf(const ServedPtr& model, const std::string& name) {
  Json version;
  version["version"] = absl::StrCat(model == nullptr ? 0 : model->version);
  version["state"] = model == nullptr ? "LOADING" : "AVAILABLE";
  version["status"] = {{"error_code", "OK"}, {"error_message", ""}};
  return {{"name", name},
          {"ready", model != nullptr},
          {"model_version_status", Json::array({std::move(version)})}};
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
    case SavedModel::Says::kTasks:
      return {{"tasks", TensorInfo("tasks", "DT_STRING", true)},
              {"scores", numbers("scores", true)},
              {"predictions", numbers("predictions", true)}};
    case SavedModel::Says::kItems:
      break;
  }
  return {{"items", TensorInfo("items", "DT_STRING", true)}, {"scores", numbers("scores", true)}};
}

Json MetadataOf(const ServedModel& served, const std::string& name) {
  Json json;
  json["model_spec"] = {
      {"name", name}, {"signature_name", ""}, {"version", absl::StrCat(served.version)}};
  Json& signatures = json["metadata"]["signature_def"]["signature_def"];
  signatures = Json::object();
  if (!served.model) return json;
  const SavedModel& model = *served.model;
  Json inputs = Json::object();
  for (const RawColumn& column : model.columns()) {
    inputs[column.name] =
        TensorInfo(column.name, column.kind == RawColumn::Kind::kNumber ? "DT_DOUBLE" : "DT_STRING",
                   column.kind == RawColumn::Kind::kValues);
  }
  signatures["serving_default"] = {{"inputs", std::move(inputs)},
                                   {"outputs", Outputs(model.says())},
                                   {"method_name", "tensorflow/serving/predict"}};
  return json;
}

std::vector<ServeMetrics::Index> Indexes(const ServedModel& served) {
  std::vector<ServeMetrics::Index> indexes;
  const auto add = [&indexes](const std::string& table, const model::IndexQuality* quality) {
    if (quality != nullptr) indexes.push_back({table, quality->recall});
  };
  if (served.recommender != nullptr) add("items", served.recommender->index());
  for (const model::NamedRows& named : served.named) add(named.table(), named.index());
  return indexes;
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

// Whether what it says can no longer be believed.
bool IsCutShort(const ServedModel& model) { return env::LostPages() != model.lost_pages; }

Answer Failed(const absl::Status& status) { return Error(StatusFor(status), status.message()); }

// A row that cannot be predicted, called as it is in the request.
absl::Status InRequest(const absl::Status& status, bool columnar) {
  absl::string_view rest = status.message();
  if (!absl::ConsumePrefix(&rest, "rows[")) return status;
  const absl::string_view row = rest.substr(0, rest.find(']'));
  rest.remove_prefix(std::min(rest.size(), row.size() + 1));
  return absl::Status(status.code(), columnar ? absl::StrCat("inputs, row ", row, rest)
                                              : absl::StrCat("instances[", row, "]", rest));
}

std::string NotThis(absl::string_view verb) {
  return absl::StrCat("this kind of model has no :", verb);
}

absl::StatusOr<predict::Recommender::Whom> WhomOf(const predict::Recommender& recommender,
                                                  const RecommendRequest::For& whom) {
  if (!whom.values.empty()) return recommender.WithValues(whom.values);
  if (!whom.user) return recommender.WithItems(whom.items);
  return recommender.User(*whom.user);
}

const model::NamedRows* TableOf(const ServedModel& model, const std::string& wanted,
                                std::string* error) {
  std::vector<std::string> names;
  for (const model::NamedRows& named : model.named) {
    if (named.table() == wanted || (wanted.empty() && model.named.size() == 1)) return &named;
    names.push_back(named.table());
  }
  // By default the table that has the name of its feature.
  const model::NamedRows* own = nullptr;
  int owns = 0;
  for (const model::NamedRows& named : model.named) {
    if (!wanted.empty() || named.table() != named.feature()) continue;
    own = &named;
    ++owns;
  }
  if (owns == 1) return own;
  *error = names.empty() ? "the model has no table whose rows have names"
                         : absl::StrCat("table: wanted one of ", absl::StrJoin(names, ", "),
                                        wanted.empty() ? "" : ", found ", wanted);
  return nullptr;
}

}  // namespace

ModelService::ModelService(ServedPtr model, ServiceOptions options)
    : options_(std::move(options)), admission_(options_.admission), model_(std::move(model)) {}

ModelService::ModelService(SavedModel model, ServiceOptions options)
    : ModelService(std::make_shared<const ServedModel>(ServedModel{
                       model.predictor().steps(), env::LostPages(), model, nullptr, {}}),
                   std::move(options)) {}

ServedPtr ModelService::model() const {
  absl::MutexLock lock(&mutex_);
  return model_;
}

void ModelService::Replace(ServedPtr model) {
  absl::MutexLock lock(&mutex_);
  std::swap(model_, model);  // the old one goes with its last request
}

void ModelService::ReplaceIf(const ServedPtr& old, ServedPtr model) {
  absl::MutexLock lock(&mutex_);
  if (model_ == old) std::swap(model_, model);
}

void ModelService::StartDraining() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
}

Answer ModelService::Health(absl::string_view path) const {
  absl::MutexLock lock(&mutex_);
  if (path == "/metrics") {
    std::string text =
        model_ == nullptr ? metrics_.Text(0, {}) : metrics_.Text(model_->version, Indexes(*model_));
    return {kOk, std::move(text), "text/plain; version=0.0.4"};
  }
  if (path == "/readyz" && draining_) return Error(kUnavailable, "the server is ending");
  if (path == "/readyz" && model_ == nullptr) return Error(kUnavailable, kNoModelYet);
  if (path == "/readyz" && IsCutShort(*model_)) return Error(kUnavailable, kCutShort);
  return {kOk, "ok\n", kPlain};
}

Answer ModelService::Handle(absl::string_view method, absl::string_view path,
                            absl::string_view body, const Caller& caller) {
  const bool get = method == "GET" || method == "HEAD";
  if (path == "/healthz" || path == "/readyz" || path == "/metrics" || path == kModels) {
    if (!get) return WrongMethod(method, "GET");
    return path == kModels ? Show({{"models", {options_.name}}}) : Health(path);
  }
  absl::string_view rest = path;
  if (absl::ConsumePrefix(&rest, absl::StrCat(kModels, "/"))) {
    return OfModel(method, rest, body, caller);
  }
  return Error(kNotFound, absl::StrCat("there is no ", data::Quoted(path)));
}

Answer ModelService::OfModel(absl::string_view method, absl::string_view rest,
                             absl::string_view body, const Caller& caller) {
  const ServedPtr model = this->model();
  const absl::string_view name = rest.substr(0, rest.find_first_of(":/"));
  if (name != options_.name) {
    return Error(kNotFound, absl::StrCat("there is no model ", data::Quoted(name), ", but ",
                                         data::Quoted(options_.name)));
  }
  rest.remove_prefix(name.size());
  if (absl::ConsumePrefix(&rest, "/versions/")) {
    const absl::string_view version = rest.substr(0, rest.find_first_of(":/"));
    const std::string there = model == nullptr ? "none" : absl::StrCat(model->version);
    if (version != there || model == nullptr) {
      return Error(kNotFound, absl::StrCat("there is no version ", data::Quoted(version),
                                           " of the model, but ", there));
    }
    rest.remove_prefix(version.size());
  }
  const bool get = method == "GET" || method == "HEAD";
  if (rest.empty()) return get ? Show(StatusOf(model, options_.name)) : WrongMethod(method, "GET");
  const bool metadata = rest == "/metadata";
  const bool use = rest == ":use" && options_.use != nullptr;
  if (!metadata && !use && rest != ":predict" && rest != ":recommend" && rest != ":nearest") {
    return Error(kNotFound, absl::StrCat("a model has no ", data::Quoted(rest),
                                         ", but :predict, :recommend, :nearest and /metadata"));
  }
  if (metadata != get || (!metadata && method != "POST")) {
    return WrongMethod(method, metadata ? "GET" : "POST");
  }
  if (use) return Use(body, caller);
  if (model == nullptr) return Error(kUnavailable, kNoModelYet);
  if (metadata) return Show(MetadataOf(*model, options_.name));
  return Ask(*model, rest.substr(1), body);
}

Answer ModelService::Ask(const ServedModel& model, absl::string_view verb, absl::string_view body) {
  const absl::Time start = absl::Now();
  int64_t rows = 0;
  Answer answer;
  {
    const Admission::Place place = admission_.Enter();
    answer = !place                ? Error(kTooMany, "too many requests at once: try again later")
             : verb == "predict"   ? Predict(model, body, &rows)
             : verb == "recommend" ? Recommend(model, body, &rows)
                                   : Nearest(model, body, &rows);
  }
  if (IsCutShort(model)) answer = Error(kFailed, kCutShort);
  metrics_.CountPrediction(answer.status, rows, absl::Now() - start);
  return answer;
}

Answer ModelService::Predict(const ServedModel& served, absl::string_view body,
                             int64_t* rows) const {
  if (!served.model) return Error(kBad, NotThis("predict"));
  const SavedModel& model = *served.model;
  const auto request = ParsePredictRequest(body, model.columns(), options_.max_rows);
  if (!request.ok()) return Failed(request.status());
  if (request->top > 0 && !model.predictor().chooses()) {
    return Error(kBad, "top: this model says a number of each row, and no choice");
  }
  constexpr int64_t kItems = 10;
  const int64_t top = request->top > 0                           ? request->top
                      : model.says() == SavedModel::Says::kItems ? kItems
                                                                 : 1;
  const auto predictions = model.Predict(request->rows, top);
  if (!predictions.ok()) return Failed(InRequest(predictions.status(), request->columnar));
  *rows = static_cast<int64_t>(predictions->size());
  return {kOk, PredictResponse(*predictions, model.says(), request->columnar)};
}

Answer ModelService::Recommend(const ServedModel& model, absl::string_view body,
                               int64_t* rows) const {
  if (model.recommender == nullptr) return Error(kBad, NotThis("recommend"));
  const predict::Recommender& recommender = *model.recommender;
  const auto request = ParseRecommendRequest(body, recommender.columns(), options_.max_rows);
  if (!request.ok()) return Failed(request.status());
  const predict::RecommendOptions options = {
      .top = request->k, .include_known = !request->exclude_known, .exact = request->exact};
  std::vector<predict::Recommender::Whom> all;
  for (size_t i = 0; i < request->instances.size(); ++i) {
    auto whom = WhomOf(recommender, request->instances[i]);
    if (!whom.ok()) {
      const absl::Status status = Annotate(whom.status(), absl::StrCat("instances[", i, "]"));
      // A question that this kind of model cannot be asked.
      if (absl::IsFailedPrecondition(status)) return Error(kBad, status.message());
      return Failed(status);
    }
    all.push_back(*std::move(whom));
  }
  const auto found = recommender.RecommendTo(all, options);
  if (absl::IsFailedPrecondition(found.status())) return Error(kBad, found.status().message());
  if (!found.ok()) return Failed(found.status());
  std::vector<std::vector<Scored>> answers;
  for (const std::vector<predict::Choice>& best : *found) {
    std::vector<Scored>& answer = answers.emplace_back();
    for (const predict::Choice& choice : best) {
      answer.push_back({recommender.predictor().NameOf(choice.id), choice.score});
    }
  }
  *rows = static_cast<int64_t>(answers.size());
  return {kOk, ScoredResponse(answers, "items", "scores")};
}

Answer ModelService::Nearest(const ServedModel& model, absl::string_view body,
                             int64_t* rows) const {
  const auto request = ParseNearestRequest(body, options_.max_rows);
  if (!request.ok()) return Failed(request.status());
  std::string error;
  const model::NamedRows* const table = TableOf(model, request->table, &error);
  if (table == nullptr) return Error(kBad, error);
  // Runs in this thread: the number of concurrent requests is limited.
  const auto found =
      table->Nearest(request->instances, request->k, env::NewInlinePool().get(), request->exact);
  if (absl::IsFailedPrecondition(found.status())) return Error(kBad, found.status().message());
  if (!found.ok()) return Failed(found.status());
  std::vector<std::vector<Scored>> answers;
  for (const auto& neighbours : *found) {
    std::vector<Scored>& answer = answers.emplace_back();
    for (const auto& near : neighbours) answer.push_back({near.name, near.cosine});
  }
  *rows = static_cast<int64_t>(answers.size());
  return {kOk, ScoredResponse(answers, "words", "cosines")};
}

Answer ModelService::Use(absl::string_view body, const Caller& caller) const {
  if (!caller.trusted) {
    return Error(kForbidden,
                 "only a program of the server's machine may choose a version, with "
                 "Content-Type: application/json and not through a proxy");
  }
  const auto version = ParseVersionRequest(body);
  if (!version.ok()) return Failed(version.status());
  const auto used = options_.use(*version);
  if (absl::IsNotFound(used.status())) return Error(kNotFound, used.status().message());
  if (!used.ok()) return Failed(used.status());
  return Show({{"version", absl::StrCat(used->version)}, {"following", used->following}});
}

}  // namespace coxswain::serve
