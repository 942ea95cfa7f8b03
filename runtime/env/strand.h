// The production event loop (see event_loop.h): a serial queue run by whoever finds it idle, for a
// bounded turn, and then by threads that are kept for loops.
#pragma once

#include <memory>

#include "runtime/env/event_loop.h"
#include "runtime/env/strand_queue.h"

namespace coxswain::env {

// One thread that watches the time for all loops of a process. It runs no task of a loop.
// Thread-safe.
class TimerThread;
std::shared_ptr<TimerThread> NewTimerThread();

// Threads that run what loops hand over: their turns, one after the other, and the timers' tasks.
// A loop that never comes to an end takes no more than its turns. Thread-safe.
class LoopThreads;
std::shared_ptr<LoopThreads> NewLoopThreads(int threads,
                                            std::shared_ptr<TimerThread> timers = NewTimerThread(),
                                            StrandHost::TurnLimit limit = {});

// Tasks still queued when the loop is destroyed are dropped; timers are cancelled. The owner must
// make sure that nobody posts any more.
std::unique_ptr<EventLoop> NewStrand(std::shared_ptr<LoopThreads> threads);

}  // namespace coxswain::env
