#include "runtime/env/strand.h"

#include <time.h>

#include <map>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace coxswain {
namespace {

// A moment on a clock that no one sets.
absl::Time MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
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

namespace {

// The queue lives longer than the loop object: a timer that fires during destruction finds it
// closed.
struct StrandState {
  absl::Mutex mu;
  std::deque<EventLoop::Task> queue ABSL_GUARDED_BY(mu);
  bool running ABSL_GUARDED_BY(mu) = false;
  bool closed ABSL_GUARDED_BY(mu) = false;
  std::thread::id runner ABSL_GUARDED_BY(mu);

  void Post(EventLoop::Task task) {
    mu.Lock();
    if (closed) {
      mu.Unlock();
      return;
    }
    queue.push_back(std::move(task));
    if (running) {
      mu.Unlock();
      return;
    }
    running = true;
    runner = std::this_thread::get_id();
    while (!queue.empty()) {
      EventLoop::Task next = std::move(queue.front());
      queue.pop_front();
      mu.Unlock();
      next();
      next = nullptr;
      mu.Lock();
    }
    running = false;
    runner = std::thread::id();
    mu.Unlock();
  }

  void Close() {
    std::deque<EventLoop::Task> dropped;
    mu.Lock();
    closed = true;
    dropped.swap(queue);
    // A task of this loop may destroy the loop: then there is nobody to wait for.
    if (runner != std::this_thread::get_id()) {
      mu.Await(absl::Condition(
          +[](bool* r) { return !*r; }, &running));
    }
    mu.Unlock();
  }
};

class Strand final : public EventLoop {
 public:
  explicit Strand(std::shared_ptr<TimerThread> timers)
      : state_(std::make_shared<StrandState>()), timers_(std::move(timers)) {}
  ~Strand() override { state_->Close(); }

  void Post(Task task) override {
    const std::shared_ptr<StrandState> keep = state_;
    keep->Post(std::move(task));
  }

  TimerId PostAfter(absl::Duration delay, Task task) override {
    return timers_->Add(
        delay, [weak = std::weak_ptr<StrandState>(state_), task = std::move(task)]() mutable {
          if (auto state = weak.lock()) state->Post(std::move(task));
        });
  }

  void Cancel(TimerId timer) override { timers_->Remove(timer); }

 private:
  std::shared_ptr<StrandState> state_;
  std::shared_ptr<TimerThread> timers_;
};

}  // namespace

std::shared_ptr<TimerThread> NewTimerThread() { return std::make_shared<TimerThread>(); }

std::unique_ptr<EventLoop> NewStrand(std::shared_ptr<TimerThread> timers) {
  return std::make_unique<Strand>(std::move(timers));
}

}  // namespace coxswain
