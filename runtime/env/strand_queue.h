// The queue behind a strand (strand.h), without threads or a clock of its own: those come from a
// host, so that the simulator runs the same code.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/env/event_loop.h"

namespace coxswain::env {

// Where the turns of strands run. Thread-safe; its methods are called under a strand's lock and
// must not call back into one.
class StrandHost {
 public:
  // A turn ends after `tasks` tasks, or with the task that is running when `time` has passed
  // since its first task ended.
  struct TurnLimit {
    int tasks = 64;
    absl::Duration time = absl::Milliseconds(1);
  };

  virtual ~StrandHost() = default;
  virtual TurnLimit limit() { return {}; }
  virtual absl::Duration Now() = 0;  // monotonic
  // Whether the calling thread may be borrowed for a turn now.
  virtual bool MayBorrow() = 0;
  // Runs `turn` on a thread that is kept for loops, after the turns that came before. Never in the
  // caller.
  virtual void RunTurn(absl::AnyInvocable<void()> turn) = 0;
};

// Thread-safe. It may live longer than the loop object: a timer that fires, or a turn that begins,
// during the loop's destruction finds it closed.
class StrandQueue : public std::enable_shared_from_this<StrandQueue> {
 public:
  enum class Where : uint8_t {
    kHere,          // in the caller, if the strand is idle
    kNotHere,       // the caller is not to be borrowed
    kOnLoopThread,  // nor is anybody else for this task
  };

  // `host` must outlive the last Post, and the turns that it runs.
  explicit StrandQueue(StrandHost* host) : host_(host) {}

  // The caller keeps the queue alive during the call.
  void Post(EventLoop::Task task, Where where);
  // Whether the caller is a task of this queue.
  bool RunsHere() const;
  // Drops what is queued and waits for the task that runs, unless it is the caller. What is posted
  // from now on is dropped.
  void Close();

 private:
  struct Entry {
    EventLoop::Task task;
    bool on_loop_thread = false;
  };

  // Runs tasks until there are none, or it is another thread's turn.
  void Turn(bool borrowed) ABSL_UNLOCK_FUNCTION(mu_);
  void HandOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnTurn() ABSL_LOCKS_EXCLUDED(mu_);

  StrandHost* const host_;
  absl::Mutex mu_;
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mu_);
  bool running_ ABSL_GUARDED_BY(mu_) = false;      // by runner_
  bool handed_over_ ABSL_GUARDED_BY(mu_) = false;  // a turn will come
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id runner_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::env
