// The production event loop (see event_loop.h): a serial queue run by whoever finds it idle.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/env/event_loop.h"

namespace coxswain {

// One thread that fires the timers of all loops of a process. Thread-safe.
class TimerThread;
std::shared_ptr<TimerThread> NewTimerThread();

// Tasks still queued when the loop is destroyed are dropped; timers are cancelled. The owner must
// make sure that nobody posts any more.
std::unique_ptr<EventLoop> NewStrand(std::shared_ptr<TimerThread> timers);

}  // namespace coxswain
