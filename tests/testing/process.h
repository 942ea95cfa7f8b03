// Child processes for tests: output is captured, every wait is bounded, and no child outlives its
// object.
//
// Thread model: an object belongs to one thread, but for Kill, which is thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace coxswain {

class Process {
 public:
  // How a process ended.
  struct Result {
    // The exit code; 128 + n for signal n, as shells say; kTimedOut: it did not end in time, and
    // was killed.
    int code = 0;
    std::string out;
    std::string err;
  };
  static constexpr int kTimedOut = -1;

  // What is different from this process's environment.
  using Environment = std::map<std::string, std::string>;

  // Starts command[0], a path, with an empty stdin and no blocked signals.
  // A process that cannot be started ends with code 127, and `err` says why.
  explicit Process(const std::vector<std::string>& command, const Environment& environment = {});
  // Kills the process, if it still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits until the process has written `text` to stdout. False: it ended, or `timeout` is over,
  // without.
  bool WaitForOutput(const std::string& text, absl::Duration timeout = absl::Seconds(60)) const
      ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return WaitFor(text, out_, timeout);
  }
  // The same for stderr.
  bool WaitForError(const std::string& text, absl::Duration timeout = absl::Seconds(60)) const
      ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return WaitFor(text, err_, timeout);
  }
  // Waits for the end; kills the process when `timeout` is over.
  Result Wait(absl::Duration timeout = absl::Seconds(60));
  pid_t pid() const { return pid_; }  // -1: it could not be started
  // Sends a signal, if the process still runs. After SIGSTOP all of its threads have stopped.
  void Kill(int signal) const;
  // What it has written so far.
  std::string out() const;
  std::string err() const;

 private:
  void Start(const std::vector<std::string>& command, const Environment& environment);
  void Fail(const std::string& why);
  void Read(int fd, std::string* text);
  void Reap();
  bool WaitFor(const std::string& text, const std::string& written, absl::Duration timeout) const;

  mutable absl::Mutex mu_;
  pid_t pid_ = -1;
  std::string out_ ABSL_GUARDED_BY(mu_);
  std::string err_ ABSL_GUARDED_BY(mu_);
  int reading_ ABSL_GUARDED_BY(mu_) = 0;  // pipes that are still open
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  int code_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::thread> threads_;
};

// Runs a command to its end.
Process::Result Run(const std::vector<std::string>& command,
                    const Process::Environment& environment = {},
                    absl::Duration timeout = absl::Seconds(60));

}  // namespace coxswain
