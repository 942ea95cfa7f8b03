// A child process: started with what it needs, watched, and never left behind.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::local {

struct ChildOptions {
  std::vector<std::string> command;      // command[0] is a path
  std::vector<std::string> environment;  // "NAME=value"; empty: this process's
  std::string directory;                 // to run in; empty: this process's
  int out = -1, err = -1;                // its stdout and stderr; -1: this process's
  int inherits = -1;                     // a descriptor that it has too, under the same number
  // What it gets when the thread that started it ends, be it by a crash; 0: nothing. SIGKILL also
  // reaches a process that is stopped.
  int death_signal = 0;
};

// Thread model: one thread, which should live as long as the child when there is a death signal.
class Child {
 public:
  // With an empty stdin, no blocked signals, and a process group of its own: Ctrl-C is for whoever
  // started it.
  // Errors: NotFound when there is no such program; Internal when the system cannot start one.
  static absl::StatusOr<Child> Start(const ChildOptions& options);

  Child() = default;  // no process
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();  // kills it, if it still runs

  pid_t pid() const { return pid_; }
  bool running() { return pid_ > 0 && !Poll(); }
  // How it ended: the exit code, or 128 + n for signal n. Nothing while it runs.
  std::optional<int> Poll();
  // A descriptor that poll() finds readable when it has ended; -1: the system has none.
  int end_fd() const { return end_.get(); }
  // False: it still runs when `timeout` is over.
  bool WaitFor(absl::Duration timeout);
  // Nothing happens when it has ended.
  void Signal(int number);
  // From now on it is on its own.
  void Detach() { pid_ = -1; }

 private:
  explicit Child(pid_t pid);

  pid_t pid_ = -1;
  net::UniqueFd end_;
  std::optional<int> code_;
};

// "ended with code 3", "was ended by signal 9 (Killed)"; of what Child::Poll returns.
std::string HowEnded(std::optional<int> code);

// Reads a daemon's stdout (the reading end of a pipe) up to the line that tells its address.
// Errors: DeadlineExceeded; Unavailable when it ends without, with what it printed. `name` is for
// messages.
absl::StatusOr<std::string> ReadAddress(int fd, const std::string& name, absl::Duration timeout);

}  // namespace coxswain::local
