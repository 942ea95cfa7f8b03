#include "runtime/env/without_signals.h"

#include <initializer_list>

namespace coxswain::env {
namespace {

thread_local bool takes_none = false;

sigset_t AllButFaults() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    sigdelset(&signals, fault);
  return signals;
}

}  // namespace

void TakeNoSignals() {
  const sigset_t signals = AllButFaults();
  takes_none = pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0;
}

WithoutSignals::WithoutSignals() {
  if (takes_none) return;
  const sigset_t signals = AllButFaults();
  restore_ = pthread_sigmask(SIG_BLOCK, &signals, &before_) == 0;
}

WithoutSignals::~WithoutSignals() {
  if (restore_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace coxswain::env
