// An event loop: a serial queue of tasks. Tasks of one loop never run at the same time.
//
// In production a loop owns no thread: whoever posts to an idle loop runs it, on the spot (a
// strand). A message that arrives is so handled on the thread that read it, without a wake-up,
// which costs more than handling most messages. The thread is borrowed for a bounded turn only;
// what is left after it runs on threads that are kept for loops. Tasks must not block.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "runtime/base/logging.h"

namespace coxswain::env {

class EventLoop {
 public:
  using Task = absl::AnyInvocable<void()>;
  using TimerId = uint64_t;

  virtual ~EventLoop() = default;
  // Queues the task. May run it, and for a bounded turn others, before it returns, unless called
  // from a task of this loop. Thread-safe.
  virtual void Post(Task task) = 0;
  // The same for a task that may compute for milliseconds or more: it runs on a thread that is kept
  // for loops, never on one that others need, be it the caller's. Thread-safe.
  virtual void PostLong(Task task) { Post(std::move(task)); }
  // Queues the task after `delay`; never runs it on the thread that watches the time. Thread-safe.
  virtual TimerId PostAfter(absl::Duration delay, Task task) = 0;
  // A task that has not started will not run. Thread-safe; unknown ids are ignored.
  virtual void Cancel(TimerId timer) = 0;

  // Whether the caller is part of a task of this loop. One of another loop is not, also where that
  // one runs on the spot within a task of this one.
  virtual bool OnLoop() const = 0;
  // What belongs to this loop was reached: ends the program, naming the caller, unless that is so.
  // Costs a look at a variable of the thread.
  void AssertOnLoop(const char* file = __builtin_FILE(), int line = __builtin_LINE()) const {
    if (!OnLoop()) CheckFailed(file, line, "OnLoop()", "only tasks of its loop may do this");
  }
};

}  // namespace coxswain::env
