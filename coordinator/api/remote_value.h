// What the copies of a RemoteValue share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coordinator/api/remote_function_state.h"
#include "coordinator/api/wait_reporter.h"
#include "coxswain/cluster_coordinator.h"
#include "runtime/base/ids.h"

namespace coxswain {

// Waits until the condition holds; `explain` is called every kSilence, without the lock.
template <typename Explain>
void AwaitAloud(absl::Mutex* mu, const absl::Condition& condition,
                Explain explain) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const absl::Time start = absl::Now();
  while (!mu->AwaitWithTimeout(condition, kSilence)) {
    mu->Unlock();
    explain(absl::Now() - start);
    mu->Lock();
  }
}

// Thread model: thread-safe.
struct RemoteValue::State {
  explicit State(WaitReporter reporter) : waits(std::move(reporter)) {}

  // The closure is over.
  void Set(absl::StatusOr<std::vector<Tensor>> value) ABSL_LOCKS_EXCLUDED(mu);
  // Calls it when that is so, at once if it is. Returns its number, for DropCall.
  uint64_t WhenReady(std::function<void()> call) ABSL_LOCKS_EXCLUDED(mu);
  // Nothing where it was called.
  void DropCall(uint64_t call) ABSL_LOCKS_EXCLUDED(mu);
  // Whether it was the program that did not want it any more.
  bool CancelledByProgram() ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    return cancelled;
  }

  const WaitReporter waits;
  std::shared_ptr<const ResultNames> names;  // of the function
  std::atomic<ClosureId> number{0};          // 0: the cluster does not have it yet
  absl::Mutex mu;
  bool ready ABSL_GUARDED_BY(mu) = false;
  bool cancelled ABSL_GUARDED_BY(mu) = false;
  absl::StatusOr<std::vector<Tensor>> results ABSL_GUARDED_BY(mu) = absl::UnknownError("not ready");
  std::map<uint64_t, std::function<void()>> when_ready ABSL_GUARDED_BY(mu);
  uint64_t last_call ABSL_GUARDED_BY(mu) = 0;
  // Of one that waits for its arguments: ends it.
  std::function<void()> stop_waiting ABSL_GUARDED_BY(mu);
};

}  // namespace coxswain
