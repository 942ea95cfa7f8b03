#include "coordinator/sidecar/evaluation_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/env/system_error.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::sidecar {
namespace {

using Json = nlohmann::ordered_json;

absl::Status Wrong(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", key, "' is ", what));
}

absl::Status ReadText(const Json& json, const char* key, std::string* text) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_string()) return Wrong(key, "no text");
  *text = it->get<std::string>();
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadCount(const Json& json, const char* key, T* count) {
  const auto it = json.find(key);
  const bool good = it != json.end() && it->is_number_unsigned() &&
                    it->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  if (!good) return Wrong(key, "no number of at least 0");
  *count = it->get<T>();
  return absl::OkStatus();
}

absl::Status ReadFlag(const Json& json, const char* key, bool* flag) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_boolean()) return Wrong(key, "neither true nor false");
  *flag = it->get<bool>();
  return absl::OkStatus();
}

absl::Status ReadMetrics(const Json& json, std::map<std::string, double>* metrics) {
  const auto it = json.find("metrics");
  if (it == json.end() || !it->is_object()) return Wrong("metrics", "no object");
  for (const auto& [name, value] : it->items()) {
    if (!value.is_number() && !value.is_null()) return Wrong(name, "no number");
    (*metrics)[name] = value.is_null() ? std::nan("") : value.get<double>();
  }
  return absl::OkStatus();
}

absl::Status ReadIntervals(const Json& json, std::map<std::string, model::Interval>* intervals) {
  const auto it = json.find("intervals");
  if (it == json.end()) return absl::OkStatus();
  if (!it->is_object()) return Wrong("intervals", "no object");
  for (const auto& [name, both] : it->items()) {
    if (!both.is_array() || both.size() != 2 || !both[0].is_number() || !both[1].is_number()) {
      return Wrong(name, "no list of two numbers");
    }
    (*intervals)[name] = {both[0].get<double>(), both[1].get<double>()};
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, absl::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return env::SystemError(errno, "write", path);
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  return fdatasync(fd) == 0 ? absl::OkStatus() : env::SystemError(errno, "write", path);
}

}  // namespace

std::string ToLine(const EvaluatedCheckpoint& e) {
  Json json = {{"checkpoint", e.number}, {"identity", e.identity}, {"job", e.job},
               {"steps", e.steps},       {"written", e.written},   {"part", e.part},
               {"held_out", e.held_out}, {"examples", e.examples}, {"metrics", e.metrics},
               {"best", e.best},         {"finished", e.finished}};
  for (const auto& [name, interval] : e.intervals) {
    json["intervals"][name] = {interval.low, interval.high};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<EvaluatedCheckpoint> ParseLine(absl::string_view line) {
  const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("it is no object of JSON");
  EvaluatedCheckpoint e;
  RETURN_IF_ERROR(ReadCount(json, "checkpoint", &e.number));
  RETURN_IF_ERROR(ReadText(json, "identity", &e.identity));
  RETURN_IF_ERROR(ReadText(json, "job", &e.job));
  RETURN_IF_ERROR(ReadCount(json, "steps", &e.steps));
  RETURN_IF_ERROR(ReadText(json, "written", &e.written));
  RETURN_IF_ERROR(ReadText(json, "part", &e.part));
  RETURN_IF_ERROR(ReadFlag(json, "held_out", &e.held_out));
  RETURN_IF_ERROR(ReadCount(json, "examples", &e.examples));
  RETURN_IF_ERROR(ReadMetrics(json, &e.metrics));
  RETURN_IF_ERROR(ReadIntervals(json, &e.intervals));
  RETURN_IF_ERROR(ReadFlag(json, "best", &e.best));
  RETURN_IF_ERROR(ReadFlag(json, "finished", &e.finished));
  return e;
}

bool BestBy::Better(const EvaluatedCheckpoint& a,
                    const std::optional<EvaluatedCheckpoint>& b) const {
  const auto found = a.metrics.find(metric);
  if (found == a.metrics.end() || std::isnan(found->second)) return false;
  if (!b) return true;
  const auto other = b->metrics.find(metric);
  return other == b->metrics.end() ||
         (higher_is_better ? found->second > other->second : found->second < other->second);
}

void EvaluationLog::Take(const EvaluatedCheckpoint& evaluated) {
  if (evaluated.best) best_ = evaluated;
  last_ = evaluated;
}

absl::StatusOr<EvaluationLog> EvaluationLog::Open(env::FileSystem* files, const std::string& path,
                                                  const std::string& job) {
  EvaluationLog log(path);
  auto text = files->Read(path);
  if (absl::IsNotFound(text.status())) {
    RETURN_IF_ERROR(files->WriteAtomically(path, ""));
    return log;
  }
  RETURN_IF_ERROR(text.status());
  absl::string_view rest = *text;
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = rest.find('\n');
    if (end == absl::string_view::npos) {
      text->resize(text->size() - rest.size());
      RETURN_IF_ERROR(files->WriteAtomically(path, *text));
      break;
    }
    const auto evaluated = ParseLine(rest.substr(0, end));
    const auto wrong = [&](absl::string_view what) {
      return absl::FailedPreconditionError(absl::StrCat(path, ":", line, ": ", what));
    };
    if (!evaluated.ok()) {
      return wrong(
          absl::StrCat("no report of `coxswain eval --follow`: ", evaluated.status().message()));
    }
    if (evaluated->job != job) {
      return wrong(absl::StrCat("it is of job ", data::Quoted(evaluated->job), ", and not of ",
                                data::Quoted(job), ": name another directory"));
    }
    log.Take(*evaluated);
    rest.remove_prefix(end + 1);
  }
  return log;
}

absl::Status EvaluationLog::Append(const EvaluatedCheckpoint& evaluated) {
  const net::UniqueFd file(open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!file.valid()) return env::SystemError(errno, "open", path_);
  const off_t before = lseek(file.get(), 0, SEEK_END);
  if (before < 0) return env::SystemError(errno, "seek in", path_);
  if (absl::Status s = WriteAll(file.get(), ToLine(evaluated) + "\n", path_); !s.ok()) {
    // No part of a line stays, before which another one would be written.
    if (ftruncate(file.get(), before) != 0) return env::SystemError(errno, "write", path_);
    return s;
  }
  Take(evaluated);
  return absl::OkStatus();
}

}  // namespace coxswain::sidecar
