#include <sys/random.h>

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "runtime/base/logging.h"
#include "runtime/env/env.h"
#include "runtime/env/strand.h"

namespace coxswain::env {
namespace {

class RealEnv final : public Env {
 public:
  explicit RealEnv(int threads)
      : timers_(NewTimerThread()),
        loops_(NewLoopThreads(kLoopThreads, timers_)),
        files_(NewRealFileSystem()),
        pool_(NewComputePool(threads > 0 ? threads
                                         : static_cast<int>(std::thread::hardware_concurrency()))) {
  }

  absl::Time Now() override { return absl::Now(); }

  absl::Duration Monotonic() override {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return absl::DurationFromTimespec(now);
  }

  uint64_t Random64() override {
    uint64_t value = 0;
    COX_CHECK(getrandom(&value, sizeof(value), 0) == sizeof(value), "no entropy");
    return value;
  }

  std::unique_ptr<EventLoop> NewLoop() override { return NewStrand(loops_); }
  std::unique_ptr<EventLoop> NewComputeLoop() override {
    absl::MutexLock lock(&mu_);
    if (compute_loops_ == nullptr) compute_loops_ = NewLoopThreads(pool_->threads(), timers_);
    return NewStrand(compute_loops_);
  }
  ComputePool* pool() override { return pool_.get(); }
  FileSystem* files() override { return files_.get(); }

 private:
  // One that a task holds up, which is a mistake, leaves the others going.
  static constexpr int kLoopThreads = 2;

  const std::shared_ptr<TimerThread> timers_;
  const std::shared_ptr<LoopThreads> loops_;
  absl::Mutex mu_;
  std::shared_ptr<LoopThreads> compute_loops_ ABSL_GUARDED_BY(mu_);  // null before the first
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<ComputePool> pool_;  // ends first: its tasks use files_
};

// Debian builds Abseil with the checks of debug builds: each lock, gRPC's own too, is entered into
// a graph of all locks, under one lock of the whole process. Builds with sanitizers keep that.
void StopCheckingLockOrder() {
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

}  // namespace

std::unique_ptr<Env> NewRealEnv(int threads) {
  StopCheckingLockOrder();
  return std::make_unique<RealEnv>(threads);
}

}  // namespace coxswain::env
