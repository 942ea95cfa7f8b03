#include "runtime/env/strand_queue.h"

#include <utility>

namespace coxswain::env {
namespace {

// Whose turn the calling thread runs; the innermost, where the task of one runs that of another.
thread_local const StrandQueue* current = nullptr;

}  // namespace

bool StrandQueue::RunsHere() const { return current == this; }

void StrandQueue::Post(EventLoop::Task task, Where where) {
  mu_.Lock();
  if (closed_) {
    mu_.Unlock();
    return;
  }
  queue_.push_back({std::move(task), where == Where::kOnLoopThread});
  if (running_ || handed_over_) {
    mu_.Unlock();
  } else if (where == Where::kHere && host_->MayBorrow()) {
    Turn(/*borrowed=*/true);
  } else {
    HandOver();
    mu_.Unlock();
  }
}

void StrandQueue::Turn(bool borrowed) {
  running_ = true;
  runner_ = std::this_thread::get_id();
  const StrandQueue* const outer = std::exchange(current, this);
  const StrandHost::TurnLimit limit = host_->limit();
  absl::Duration end;
  // The clock is not looked at for a single task, which is what most turns are.
  for (int ran = 0; !queue_.empty(); ++ran) {
    if (ran == 1) end = host_->Now() + limit.time;
    if ((borrowed && queue_.front().on_loop_thread) || ran >= limit.tasks ||
        (ran > 1 && host_->Now() >= end)) {
      HandOver();
      break;
    }
    EventLoop::Task next = std::move(queue_.front().task);
    queue_.pop_front();
    mu_.Unlock();
    next();
    next = nullptr;
    mu_.Lock();
  }
  current = outer;
  running_ = false;
  runner_ = std::thread::id();
  mu_.Unlock();
}

// Under the lock, so that the host is still there: Close comes before its end.
void StrandQueue::HandOver() {
  handed_over_ = true;
  host_->RunTurn([self = shared_from_this()] { self->OnTurn(); });
}

void StrandQueue::OnTurn() {
  mu_.Lock();
  handed_over_ = false;
  if (closed_) {
    mu_.Unlock();
    return;
  }
  Turn(/*borrowed=*/false);
}

void StrandQueue::Close() {
  std::deque<Entry> dropped;
  mu_.Lock();
  closed_ = true;
  dropped.swap(queue_);
  // A task of this loop may destroy the loop: then there is nobody to wait for.
  if (runner_ != std::this_thread::get_id()) {
    mu_.Await(absl::Condition(
        +[](bool* r) { return !*r; }, &running_));
  }
  mu_.Unlock();
}

}  // namespace coxswain::env
