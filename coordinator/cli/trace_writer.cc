#include "coordinator/cli/trace_writer.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/outputs.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace coxswain::cli {
namespace {

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Whether each span has all its parts, with names and tracks that exist.
bool Whole(const proto::TraceEvents& e) {
  const int n = e.name_size();
  if (e.track_size() != n || e.start_us_size() != n || e.duration_us_size() != n ||
      e.closure_size() != n || e.step_size() != n) {
    return false;
  }
  for (int i = 0; i < n; ++i) {
    if (e.name(i) >= static_cast<uint32_t>(e.names_size()) ||
        e.track(i) >= static_cast<uint32_t>(e.tracks_size()) || e.duration_us(i) < 0) {
      return false;
    }
  }
  return true;
}

// What stands in a span's "args". Tasks of an older version do not say all of it.
std::string Arguments(const proto::TraceEvents& e, int i) {
  std::string arguments = absl::StrFormat("\"closure\":%d,\"step\":%d", e.closure(i), e.step(i));
  const auto add = [&](const char* name, const auto& values) {
    if (values.size() != e.name_size() || values.Get(i) < 0) return;
    absl::StrAppendFormat(&arguments, ",\"%s\":%d", name, values.Get(i));
  };
  add("staleness", e.staleness());
  add("bytes", e.bytes());
  return arguments;
}

// The coordinator stands first, then the workers.
int SortIndex(const std::string& task) {
  if (absl::StartsWith(task, "/job:coordinator")) return 0;
  return absl::StartsWith(task, "/job:worker") ? 1'000'000 : 2'000'000;
}

// A track with a number holds one thing's spans: it says more than their common name.
bool Numbered(const std::string& track) {
  return !track.empty() && track.back() >= '0' && track.back() <= '9';
}

}  // namespace

void TaskClock::Read(int64_t asked_us, int64_t task_us, int64_t answered_us) {
  const int64_t uncertainty = (answered_us - asked_us + 1) / 2;
  int64_t offset = asked_us + (answered_us - asked_us) / 2 - task_us;
  if (std::abs(offset) <= uncertainty) offset = 0;
  const bool contradicts = std::abs(offset - offset_) > uncertainty + uncertainty_;
  if (read_ && uncertainty >= uncertainty_ && !contradicts) return;
  read_ = true;
  offset_ = offset;
  uncertainty_ = uncertainty;
}

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path) {
  ASSIGN_OR_RETURN(auto stream, OpenIfStream(path));
  std::FILE* const file = stream ? fdopen(stream->release(), "w") : std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write the trace ", path, ": ", std::strerror(errno)));
  }
  std::fputs("[\n", file);
  return std::unique_ptr<TraceWriter>(new TraceWriter(path, file));
}

TraceWriter::~TraceWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status TraceWriter::WriteError() const {
  return absl::InternalError(absl::StrCat("cannot write the trace ", path_));
}

void TraceWriter::Write(const std::string& event) {
  const std::string line = absl::StrCat(event, ",\n");
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size()) failed_ = true;
}

void TraceWriter::Metadata(const char* what, int pid, int tid, const std::string& key,
                           const std::string& value) {
  Write(absl::StrCat("{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", pid, ",\"tid\":", tid,
                     ",\"args\":{\"", key, "\":", value, "}}"));
}

TraceWriter::Task* TraceWriter::FindTask(const core::Controller::TaskTrace& trace) {
  const auto [it, is_new] = tasks_.try_emplace({trace.task, trace.incarnation});
  Task& task = it->second;
  if (is_new) {
    task.pid = static_cast<int>(tasks_.size());
    const int life = ++lives_[trace.task];
    const std::string name = life == 1 ? trace.task : absl::StrCat(trace.task, ", life ", life);
    Metadata("process_name", task.pid, 0, "name", Quoted(name));
    Metadata("process_sort_index", task.pid, 0, "sort_index",
             absl::StrCat(SortIndex(trace.task) + task.pid));
  }
  return &task;
}

int TraceWriter::FindThread(Task* task, const std::string& track) {
  const auto [it, is_new] = task->threads.try_emplace(track, task->threads.size() + 1);
  if (is_new) Metadata("thread_name", task->pid, it->second, "name", Quoted(track));
  return it->second;
}

absl::Status TraceWriter::Add(const core::Controller::TaskTrace& trace) {
  const proto::TraceEvents& e = trace.events;
  if (!Whole(e)) return absl::InvalidArgumentError(absl::StrCat(trace.task, ": a torn trace"));
  if (start_us_ < 0) start_us_ = trace.asked_us;
  Task* const task = FindTask(trace);
  task->clock.Read(trace.asked_us, e.now_us(), trace.answered_us);
  const int64_t shift = task->clock.offset_us() - start_us_;
  dropped_ += e.dropped();
  std::vector<std::string> names(e.names().begin(), e.names().end());
  for (std::string& name : names) name = Quoted(name);
  for (int i = 0; i < e.name_size(); ++i) {
    const std::string& track = e.tracks(static_cast<int>(e.track(i)));
    const int64_t start = e.start_us(i) + shift;
    const std::string arguments = Arguments(e, i);
    const std::string event = absl::StrFormat("{\"name\":%s,\"pid\":%d,\"ts\":%d,\"args\":{%s}",
                                              names[e.name(i)], task->pid, start, arguments);
    if (trace::IsThreadTrack(track)) {
      Write(absl::StrCat(event, ",\"ph\":\"X\",\"dur\":", e.duration_us(i),
                         ",\"tid\":", FindThread(task, track), "}"));
    } else if (trace::IsInstantTrack(track)) {
      Write(
          absl::StrCat(event, ",\"ph\":\"i\",\"s\":\"p\",\"tid\":", FindThread(task, track), "}"));
    } else {
      // Begin and end of a pair that may overlap others: told apart by category and id.
      const std::string name = Numbered(track) ? Quoted(track) : names[e.name(i)];
      const std::string rest =
          absl::StrFormat(",\"cat\":%s,\"id\":%d,\"pid\":%d,\"tid\":0,\"name\":%s", Quoted(track),
                          ++last_id_, task->pid, name);
      Write(absl::StrFormat("{\"ph\":\"b\",\"ts\":%d,\"args\":{%s}%s}", start, arguments, rest));
      Write(absl::StrFormat("{\"ph\":\"e\",\"ts\":%d%s}", start + e.duration_us(i), rest));
    }
    ++spans_;
  }
  return failed_ ? WriteError() : absl::OkStatus();
}

// The last entry has no comma after it: what was lost, and how well the clocks are known.
absl::Status TraceWriter::Close() {
  if (file_ == nullptr) return absl::OkStatus();
  nlohmann::ordered_json clocks = nlohmann::ordered_json::object();
  for (const auto& [key, task] : tasks_) {
    clocks[key.first] = {{"offset_us", task.clock.offset_us()},
                         {"uncertainty_us", task.clock.uncertainty_us()}};
  }
  const nlohmann::ordered_json last = {
      {"ph", "M"},
      {"name", "trace"},
      {"pid", 0},
      {"tid", 0},
      {"args", {{"spans", spans_}, {"dropped", dropped_}, {"clocks", std::move(clocks)}}}};
  const std::string text = absl::StrCat(last.dump(), "\n]\n");
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) failed_ = true;
  if (std::fclose(std::exchange(file_, nullptr)) != 0) failed_ = true;
  return failed_ ? WriteError() : absl::OkStatus();
}

}  // namespace coxswain::cli
