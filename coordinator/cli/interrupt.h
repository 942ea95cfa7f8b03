// Ctrl-C: the first SIGINT or SIGTERM asks the job to end (with checkpoints: when one is written),
// the second ends the process at once.
#pragma once

#include <functional>
#include <string>

namespace coxswain::cli {

// Blocks these signals in this thread and in those that it starts from now on; one thread waits for
// them. Call once, before any other thread is there.
void StartInterruptThread();

// Prints the command; returns the exit code that belongs to it.
int TellToResume(const std::string& command);
// From now on a first signal that comes outside of an InterruptScope ends the process with
// kExitResumable: what is begun so far costs nothing, and `command`, which is printed, does it.
void InterruptedJobResumes(const std::string& command);

// While it lives, the first signal calls `interrupt` (on the waiting thread). One at a time.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> interrupt);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Whether a signal has come.
  static bool interrupted();
};

// While it lives, SIGHUP calls `hangup` (on the waiting thread). One at a time.
class HangupScope {
 public:
  explicit HangupScope(std::function<void()> hangup);
  ~HangupScope();
  HangupScope(const HangupScope&) = delete;
  HangupScope& operator=(const HangupScope&) = delete;
};

}  // namespace coxswain::cli
