// A child process that is started, watched, and never left behind.
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
  int inherits = -1;                     // a descriptor that it inherits under the same number
  // The signal that it gets when the thread that started it ends, even by a crash; 0: none. SIGKILL
  // also ends a process that is stopped.
  int death_signal = 0;
};

// Thread model: one thread, which should live as long as the child when there is a death signal.
class Child {
 public:
  // Starts the process with an empty stdin, no blocked signals, and its own process group, so that
  // Ctrl-C reaches only its parent. Errors: NotFound when the program does not exist; Internal when
  // the system cannot start it.
  static absl::StatusOr<Child> Start(const ChildOptions& options);

  Child() = default;  // no process
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();  // kills it, if it still runs

  pid_t pid() const { return pid_; }
  bool running() { return pid_ > 0 && !Poll(); }
  // How it ended: the exit code, or 128 + n for signal n. Nullopt while it runs.
  std::optional<int> Poll();
  // A descriptor that becomes readable for poll() when the process has ended; -1: the system does
  // not support it.
  int end_fd() const { return end_.get(); }
  // False when it still runs after `timeout`.
  bool WaitFor(absl::Duration timeout);
  // Has no effect when the process has ended.
  void Signal(int number);
  // Releases the process: it is neither watched nor killed any more.
  void Detach() { pid_ = -1; }

 private:
  explicit Child(pid_t pid);

  pid_t pid_ = -1;
  net::UniqueFd end_;
  std::optional<int> code_;
};

// "ended with code 3", "was ended by signal 9 (Killed)", for a result of Child::Poll.
std::string HowEnded(std::optional<int> code);

// Reads a daemon's stdout (the reading end of a pipe) up to the line with its address. Errors:
// DeadlineExceeded; Unavailable when it ends without, with what it printed. `name` is for messages.
absl::StatusOr<std::string> ReadAddress(int fd, const std::string& name, absl::Duration timeout);

}  // namespace coxswain::local
