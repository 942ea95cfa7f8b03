// Who watches tasks, and what is done as long as somebody does: telling events and starting tasks
// again. No lock is held meanwhile, because events may take locks of their own.
#pragma once

#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/local/local_tasks.h"

namespace coxswain::local {

// Thread-safe.
class TaskWatch {
 public:
  void Begin(LocalTaskEvents events);
  // Nothing is done any more when this has returned: it waits for what is being done, unless that
  // is the caller. What the events hold is let go of.
  void End();
  bool watched() const;
  // Does it if the tasks are watched, after what others do. It must not call Do.
  void Do(absl::FunctionRef<void(const LocalTaskEvents&)> action);

 private:
  bool IsIdle() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return actor_ == std::thread::id(); }

  mutable absl::Mutex mu_;
  std::shared_ptr<const LocalTaskEvents> events_ ABSL_GUARDED_BY(mu_);  // null: nobody watches
  std::thread::id actor_ ABSL_GUARDED_BY(mu_);  // the thread in Do; none: nothing is being done
};

}  // namespace coxswain::local
