#include "tests/bench/consistency/straggler.h"

#include <csignal>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace coxswain {
namespace {

constexpr absl::Duration kTurn = absl::Milliseconds(20);

}  // namespace

Straggler::Straggler(pid_t pid, double slowdown)
    : thread_([this, pid, slowdown] { Run(pid, slowdown); }) {}

Straggler::~Straggler() {
  ends_.store(true);
  thread_.join();
}

void Straggler::Run(pid_t pid, double slowdown) {
  const absl::Duration runs = kTurn / slowdown;
  while (!ends_.load()) {
    if (kill(pid, SIGSTOP) != 0) return;  // it is gone
    absl::SleepFor(kTurn - runs);
    kill(pid, SIGCONT);
    absl::SleepFor(runs);
  }
}

}  // namespace coxswain
