#include "runtime/env/strand.h"

#include <time.h>

#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "runtime/env/compute_pool.h"
#include "runtime/env/strand_queue.h"

namespace coxswain::env {
namespace {

// A moment on a clock that no one sets.
absl::Time MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

// The object whose threads the calling thread is one of.
thread_local const void* own_threads = nullptr;

// Destroys an object that joins its threads. What drops the last reference may be a task on one of
// these, which cannot wait for itself: then somebody else does.
template <typename T>
void DeleteElsewhere(T* object) {
  if (own_threads == object) {
    std::thread([object] { delete object; }).detach();
  } else {
    delete object;
  }
}

}  // namespace

class TimerThread {
 public:
  TimerThread() : thread_([this] { Run(); }) {}

  ~TimerThread() {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
      changed_.Signal();
    }
    thread_.join();
  }

  uint64_t Add(absl::Duration delay, EventLoop::Task task) {
    absl::MutexLock lock(&mu_);
    const uint64_t id = ++last_id_;
    const absl::Time when = MonotonicNow() + delay;
    queue_.emplace(std::make_pair(when, id), std::move(task));
    when_.emplace(id, when);
    changed_.Signal();
    return id;
  }

  void Remove(uint64_t id) {
    EventLoop::Task dropped;  // destroyed without the lock
    absl::MutexLock lock(&mu_);
    const auto it = when_.find(id);
    if (it == when_.end()) return;
    const auto entry = queue_.find({it->second, id});
    dropped = std::move(entry->second);
    queue_.erase(entry);
    when_.erase(it);
  }

 private:
  void Run() {
    own_threads = this;
    mu_.Lock();
    while (!stopping_) {
      if (queue_.empty()) {
        changed_.Wait(&mu_);
        continue;
      }
      const absl::Time next = queue_.begin()->first.first;
      if (MonotonicNow() < next) {
        changed_.WaitWithTimeout(&mu_, next - MonotonicNow());
        continue;
      }
      EventLoop::Task task = std::move(queue_.begin()->second);
      when_.erase(queue_.begin()->first.second);
      queue_.erase(queue_.begin());
      mu_.Unlock();
      task();
      task = nullptr;
      mu_.Lock();
    }
    mu_.Unlock();
  }

  absl::Mutex mu_;
  absl::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::pair<absl::Time, uint64_t>, EventLoop::Task> queue_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, absl::Time> when_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

class LoopThreads final : public StrandHost {
 public:
  LoopThreads(int threads, std::shared_ptr<TimerThread> timers, TurnLimit limit)
      : timers_(std::move(timers)), limit_(limit), pool_(NewComputePool(threads)) {}
  // The turns that are left find their loops closed.
  ~LoopThreads() override { pool_.reset(); }

  TurnLimit limit() override { return limit_; }
  absl::Duration Now() override { return MonotonicNow() - absl::UnixEpoch(); }
  bool MayBorrow() override { return true; }
  void RunTurn(absl::AnyInvocable<void()> turn) override {
    pool_->Schedule([this, turn = std::move(turn)]() mutable {
      own_threads = this;
      turn();
      // What it holds may be the last that holds these threads.
      turn = nullptr;
    });
  }
  TimerThread* timers() { return timers_.get(); }

 private:
  const std::shared_ptr<TimerThread> timers_;
  const TurnLimit limit_;
  std::unique_ptr<ComputePool> pool_;
};

namespace {

class Strand final : public EventLoop {
 public:
  explicit Strand(std::shared_ptr<LoopThreads> threads)
      : threads_(std::move(threads)), queue_(std::make_shared<StrandQueue>(threads_.get())) {}
  ~Strand() override { queue_->Close(); }

  // A task may destroy the loop: what is still needed is held here.
  void Post(Task task) override {
    const std::shared_ptr<StrandQueue> queue = queue_;
    queue->Post(std::move(task), StrandQueue::Where::kHere);
  }

  void PostLong(Task task) override {
    queue_->Post(std::move(task), StrandQueue::Where::kOnLoopThread);
  }

  TimerId PostAfter(absl::Duration delay, Task task) override {
    return threads_->timers()->Add(
        delay, [weak = std::weak_ptr<StrandQueue>(queue_), task = std::move(task)]() mutable {
          const auto queue = weak.lock();
          if (queue != nullptr) queue->Post(std::move(task), StrandQueue::Where::kNotHere);
        });
  }

  void Cancel(TimerId timer) override { threads_->timers()->Remove(timer); }
  bool OnLoop() const override { return queue_->RunsHere(); }

 private:
  const std::shared_ptr<LoopThreads> threads_;
  const std::shared_ptr<StrandQueue> queue_;
};

}  // namespace

std::shared_ptr<TimerThread> NewTimerThread() {
  return std::shared_ptr<TimerThread>(new TimerThread, DeleteElsewhere<TimerThread>);
}

std::shared_ptr<LoopThreads> NewLoopThreads(int threads, std::shared_ptr<TimerThread> timers,
                                            StrandHost::TurnLimit limit) {
  return std::shared_ptr<LoopThreads>(new LoopThreads(threads, std::move(timers), limit),
                                      DeleteElsewhere<LoopThreads>);
}

std::unique_ptr<EventLoop> NewStrand(std::shared_ptr<LoopThreads> threads) {
  return std::make_unique<Strand>(std::move(threads));
}

}  // namespace coxswain::env
