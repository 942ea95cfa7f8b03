#include "coordinator/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "coordinator/cli/exit_code.h"

namespace coxswain::cli {
namespace {

// The process's, as signals are; constant-initialised.
std::mutex g_mu;
std::function<void()>* g_interrupt = nullptr;
std::function<void()>* g_hangup = nullptr;
std::atomic<int> g_signals{0};
std::string* g_resume = nullptr;
bool g_nohup = false;  // SIGHUP was ignored from the start

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// True: that was all that it meant.
bool HangUp() {
  std::lock_guard<std::mutex> lock(g_mu);
  if (g_hangup != nullptr) {
    (*g_hangup)();
    return true;
  }
  return g_nohup;
}

void WaitForSignals() {
  const sigset_t signals = Signals();
  int number = 0;
  while (sigwait(&signals, &number) == 0) {
    if (number == SIGHUP && HangUp()) continue;
    const int before = g_signals.fetch_add(1);
    std::lock_guard<std::mutex> lock(g_mu);
    if (before == 0 && g_interrupt == nullptr && g_resume != nullptr) {
      _exit(TellToResume(*g_resume));
    }
    // Nobody to ask, or asked before: the user means it.
    if (before > 0 || g_interrupt == nullptr) _exit(kExitInterrupted);
    (*g_interrupt)();
  }
}

}  // namespace

void StartInterruptThread() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  struct sigaction before {};
  g_nohup = sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
  // Scripts start what is in the background with SIGINT ignored, and sigwait does not always get
  // what is ignored.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its write
  std::thread(WaitForSignals).detach();
}

int TellToResume(const std::string& command) {
  std::fprintf(stderr, "interrupted; resume with\n  %s\n", command.c_str());
  return kExitResumable;
}

void InterruptedJobResumes(const std::string& command) {
  std::lock_guard<std::mutex> lock(g_mu);
  delete std::exchange(g_resume, new std::string(command));
}

InterruptScope::InterruptScope(std::function<void()> interrupt) {
  std::lock_guard<std::mutex> lock(g_mu);
  g_interrupt = new std::function<void()>(std::move(interrupt));
}

InterruptScope::~InterruptScope() {
  std::lock_guard<std::mutex> lock(g_mu);
  delete std::exchange(g_interrupt, nullptr);
}

HangupScope::HangupScope(std::function<void()> hangup) {
  std::lock_guard<std::mutex> lock(g_mu);
  g_hangup = new std::function<void()>(std::move(hangup));
}

HangupScope::~HangupScope() {
  std::lock_guard<std::mutex> lock(g_mu);
  delete std::exchange(g_hangup, nullptr);
}

bool InterruptScope::interrupted() { return g_signals.load() > 0; }

}  // namespace coxswain::cli
