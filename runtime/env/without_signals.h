// Signals and code that uses the stack pointer for something else, as oneDNN's generated code does
// within a product of matrices: a handler that runs there, even an empty one, writes its frame into
// the middle of somebody's memory.
#pragma once

#include <signal.h>

namespace coxswain::env {

// The calling thread takes no signals from now on, but those of its own faults (SIGSEGV and its
// like). Threads of a ComputePool do so: others of the process get what is sent to it. Programs
// that such a thread starts begin with the same mask, where they do not set their own.
void TakeNoSignals();

// The same while this is there. Costs nothing where TakeNoSignals was called.
class WithoutSignals {
 public:
  WithoutSignals();
  ~WithoutSignals();
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  bool restore_ = false;
  sigset_t before_;
};

}  // namespace coxswain::env
