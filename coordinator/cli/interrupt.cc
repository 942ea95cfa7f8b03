#include "coordinator/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/cli/exit_code.h"

namespace coxswain::cli {
namespace {

// The process's, as signals are; constant-initialised.
using Handler = std::function<void()>;
ABSL_CONST_INIT absl::Mutex g_mu(absl::kConstInit);
Handler* g_interrupt ABSL_GUARDED_BY(g_mu) = nullptr;
Handler* g_hangup ABSL_GUARDED_BY(g_mu) = nullptr;
const Handler* g_called ABSL_GUARDED_BY(g_mu) = nullptr;  // one of these, without the lock
std::string* g_resume ABSL_GUARDED_BY(g_mu) = nullptr;
std::atomic<int> g_signals{0};
bool g_nohup = false;  // SIGHUP was ignored from the start

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// On the waiting thread. False: there is no such handler now.
bool Call(Handler* const* handler) {
  const Handler* called = nullptr;
  {
    absl::MutexLock lock(&g_mu);
    if (*handler == nullptr) return false;
    g_called = called = *handler;
  }
  (*called)();
  absl::MutexLock lock(&g_mu);
  g_called = nullptr;
  return true;
}

void Begin(Handler** handler, Handler call) {
  absl::MutexLock lock(&g_mu);
  *handler = new Handler(std::move(call));
}

// Not while it is being called: it may use what is gone afterwards.
void End(Handler** handler) {
  absl::MutexLock lock(&g_mu);
  const Handler* const over = std::exchange(*handler, nullptr);
  const auto idle = [over]() ABSL_SHARED_LOCKS_REQUIRED(g_mu) { return g_called != over; };
  g_mu.Await(absl::Condition(&idle));
  delete over;
}

void WaitForSignals() {
  const sigset_t signals = Signals();
  int number = 0;
  while (sigwait(&signals, &number) == 0) {
    if (number == SIGHUP && (Call(&g_hangup) || g_nohup)) continue;
    const int before = g_signals.fetch_add(1);
    if (before == 0 && Call(&g_interrupt)) continue;
    absl::MutexLock lock(&g_mu);
    if (before == 0 && g_resume != nullptr) _exit(TellToResume(*g_resume));
    if (before == 0) std::fprintf(stderr, "interrupted\n");
    // Nobody to ask, or asked before: the user means it.
    _exit(kExitInterrupted);
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
  absl::MutexLock lock(&g_mu);
  delete std::exchange(g_resume, new std::string(command));
}

InterruptScope::InterruptScope(std::function<void()> interrupt) {
  Begin(&g_interrupt, std::move(interrupt));
}

InterruptScope::~InterruptScope() { End(&g_interrupt); }

HangupScope::HangupScope(std::function<void()> hangup) { Begin(&g_hangup, std::move(hangup)); }

HangupScope::~HangupScope() { End(&g_hangup); }

bool InterruptScope::interrupted() { return g_signals.load() > 0; }

}  // namespace coxswain::cli
