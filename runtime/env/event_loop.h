// An event loop: a serial queue of tasks. Tasks of one loop never run at the same time.
//
// In production a loop owns no thread: whoever posts to an idle loop runs it, on the spot, until it
// is empty (a strand). A message that arrives is so handled on the thread that read it, without a
// wake-up, which costs more than handling most messages. Tasks must not block.
#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace coxswain {

class EventLoop {
 public:
  using Task = absl::AnyInvocable<void()>;
  using TimerId = uint64_t;

  virtual ~EventLoop() = default;
  // Queues the task. May run it (and others) before it returns, unless called from a task of this
  // loop. Thread-safe.
  virtual void Post(Task task) = 0;
  // Queues the task after `delay`. Thread-safe.
  virtual TimerId PostAfter(absl::Duration delay, Task task) = 0;
  // A task that has not started will not run. Thread-safe; unknown ids are ignored.
  virtual void Cancel(TimerId timer) = 0;
};

}  // namespace coxswain
