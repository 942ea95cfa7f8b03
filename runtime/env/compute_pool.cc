#include "runtime/env/compute_pool.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/logging.h"
#include "runtime/env/without_signals.h"

namespace coxswain::env {
namespace {

// The ranges of one ParallelFor. Whoever has time takes the next one; the caller takes part, so the
// loop makes progress also when every thread of the pool is busy. Helpers that come late find
// nothing.
struct Loop {
  Loop(int64_t total, int64_t ranges, absl::FunctionRef<void(int64_t, int64_t)> f)
      : n(total), parts(ranges), body(f) {}

  const int64_t n, parts;
  absl::FunctionRef<void(int64_t, int64_t)> body;  // valid while `done` < n
  std::atomic<int64_t> next{0};
  absl::Mutex mu;
  int64_t done ABSL_GUARDED_BY(mu) = 0;
  std::exception_ptr failed ABSL_GUARDED_BY(mu);

  void Work() {
    while (true) {
      const int64_t part = next.fetch_add(1, std::memory_order_relaxed);
      if (part >= parts) return;
      const int64_t begin = Begin(part), end = Begin(part + 1);
      // Memory that cannot be had, as a rule. The others still use the caller's stack: it is thrown
      // there, when all are done.
      std::exception_ptr error;
      try {
        body(begin, end);
      } catch (...) {
        error = std::current_exception();
      }
      absl::MutexLock lock(&mu);
      done += end - begin;
      if (error != nullptr) failed = std::move(error);
    }
  }
  // Sizes differ by one at most, so that none is below the grain.
  int64_t Begin(int64_t part) const { return n / parts * part + std::min(part, n % parts); }
  void Wait() {
    absl::MutexLock lock(&mu);
    mu.Await(absl::Condition(
        +[](Loop* loop) ABSL_NO_THREAD_SAFETY_ANALYSIS { return loop->done == loop->n; }, this));
    if (failed != nullptr) std::rethrow_exception(failed);
  }
};

class ThreadPool final : public ComputePool {
 public:
  explicit ThreadPool(int threads) {
    threads_.reserve(static_cast<size_t>(threads));
    // The process needs other threads, too: where the system gives no more, half of these will do.
    int wanted = threads;
    while (!Begin(wanted)) {
      wanted = std::max(1, static_cast<int>(threads_.size()) / 2);
      End();
    }
    if (threads_.size() == static_cast<size_t>(threads)) return;
    LogWarning("there are only ", threads_.size(), " compute threads of ", threads,
               ": the system gives no more (`ulimit -u`, `ulimit -v` or the cgroup's pids.max)");
  }

  ~ThreadPool() override { End(); }

  void Schedule(absl::AnyInvocable<void()> task) override {
    absl::MutexLock lock(&mu_);
    queue_.push_back(std::move(task));
  }

  void ScheduleFirst(absl::AnyInvocable<void()> task) override {
    absl::MutexLock lock(&mu_);
    first_.push_back(std::move(task));
  }

  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t, int64_t)> body) override {
    if (n <= 0) return;
    grain = std::max<int64_t>(1, grain);
    const int64_t parts = std::min<int64_t>(threads(), n / grain);
    if (parts <= 1) {
      body(0, n);
      return;
    }
    auto loop = std::make_shared<Loop>(n, parts, body);
    for (int64_t i = 1; i < parts; ++i) {
      Schedule([loop] { loop->Work(); });
    }
    loop->Work();
    loop->Wait();
  }

  int threads() const override { return static_cast<int>(threads_.size()); }

  double busy_seconds() const override {
    return static_cast<double>(busy_nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
  }

 private:
  // False: only some of them could be made. Throws where there is none.
  bool Begin(int threads) {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = false;
    }
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
      return false;
    }
    return true;
  }

  // Runs what is queued, and joins.
  void End() {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !first_.empty() || !queue_.empty();
  }

  void Run() {
    TakeNoSignals();
    while (true) {
      absl::AnyInvocable<void()> task;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &ThreadPool::Ready));
        auto& queue = first_.empty() ? queue_ : first_;
        if (queue.empty()) return;
        task = std::move(queue.front());
        queue.pop_front();
      }
      const int64_t start = Nanoseconds();
      task();
      task = nullptr;
      busy_nanoseconds_.fetch_add(Nanoseconds() - start, std::memory_order_relaxed);
    }
  }

  static int64_t Nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  absl::Mutex mu_;
  std::deque<absl::AnyInvocable<void()>> first_ ABSL_GUARDED_BY(mu_);
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<int64_t> busy_nanoseconds_{0};
  std::vector<std::thread> threads_;
};

class InlinePool final : public ComputePool {
 public:
  void Schedule(absl::AnyInvocable<void()> task) override { task(); }
  void ParallelFor(int64_t n, int64_t, absl::FunctionRef<void(int64_t, int64_t)> body) override {
    if (n > 0) body(0, n);
  }
  int threads() const override { return 1; }
  double busy_seconds() const override { return 0; }
};

}  // namespace

std::unique_ptr<ComputePool> NewComputePool(int threads) {
  return std::make_unique<ThreadPool>(std::max(1, threads));
}

std::unique_ptr<ComputePool> NewInlinePool() { return std::make_unique<InlinePool>(); }

}  // namespace coxswain::env
