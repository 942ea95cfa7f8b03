#include "coordinator/local/task_watch.h"

#include <utility>

namespace coxswain::local {

void TaskWatch::Begin(LocalTaskEvents events) {
  auto begun = std::make_shared<const LocalTaskEvents>(std::move(events));
  absl::MutexLock lock(&mu_);
  events_ = std::move(begun);
}

void TaskWatch::End() {
  std::shared_ptr<const LocalTaskEvents> events;  // let go of without the lock
  absl::MutexLock lock(&mu_);
  events.swap(events_);
  if (actor_ != std::this_thread::get_id()) {
    mu_.Await(absl::Condition(this, &TaskWatch::IsIdle));
  }
}

bool TaskWatch::watched() const {
  absl::MutexLock lock(&mu_);
  return events_ != nullptr;
}

void TaskWatch::Do(absl::FunctionRef<void(const LocalTaskEvents&)> action) {
  std::shared_ptr<const LocalTaskEvents> events;
  {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &TaskWatch::IsIdle));
    if (events_ == nullptr) return;
    events = events_;
    actor_ = std::this_thread::get_id();
  }
  action(*events);
  events = nullptr;
  absl::MutexLock lock(&mu_);
  actor_ = std::thread::id();
}

}  // namespace coxswain::local
