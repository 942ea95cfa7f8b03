// Writes what the tasks of a cluster have recorded as a trace for Chrome and Perfetto (the JSON
// array of trace events), on the coordinator's clock.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/core/controller.h"

namespace coxswain::cli {

// How far a task's clock is from the coordinator's. A clock that was read between a question and
// its answer is known to half the time between them; of all readings the narrowest counts, until
// one comes that it cannot be true of, for clocks drift. An offset of zero that can be true is
// taken: tasks on one machine read the same clock, and then nothing is moved.
class TaskClock {
 public:
  void Read(int64_t asked_us, int64_t task_us, int64_t answered_us);
  // To add to the task's times.
  int64_t offset_us() const { return offset_; }
  int64_t uncertainty_us() const { return uncertainty_; }

 private:
  bool read_ = false;
  int64_t offset_ = 0;
  int64_t uncertainty_ = 0;
};

// Not thread-safe. The file is a usable trace also when this process dies: the format allows the
// array to be cut off.
class TraceWriter {
 public:
  // Errors: those of opening a file, naming it.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Errors: InvalidArgument when the task's answer is torn (nothing of it is written); those of
  // writing, at the latest from Close.
  absl::Status Add(const core::Controller::TaskTrace& trace);
  absl::Status Close();

  int64_t spans() const { return spans_; }
  int64_t dropped() const { return dropped_; }

 private:
  struct Task {
    int pid = 0;
    TaskClock clock;
    std::map<std::string, int> threads;  // tid by track
  };

  TraceWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Task* FindTask(const core::Controller::TaskTrace& trace);
  int FindThread(Task* task, const std::string& track);
  void Metadata(const char* what, int pid, int tid, const std::string& key,
                const std::string& value);
  // One line of the array.
  void Write(const std::string& event);
  absl::Status WriteError() const;

  const std::string path_;
  std::FILE* file_;
  std::map<std::pair<std::string, Incarnation>, Task> tasks_;
  std::map<std::string, int> lives_;  // of each task, so far
  int64_t start_us_ = -1;             // of the trace
  int64_t spans_ = 0, dropped_ = 0;
  uint64_t last_id_ = 0;
  bool failed_ = false;
};

}  // namespace coxswain::cli
