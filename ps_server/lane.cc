#include "ps_server/lane.h"

#include <utility>

namespace coxswain {

// A task that needs several lanes, and how many of them it has.
struct Lane::Alone {
  std::vector<Lane*> lanes;
  size_t taken = 0;
  Task task;
};

void Lane::Post(Task task) {
  loop_->Post([this, task = std::move(task)]() mutable { Run(std::move(task)); });
}

EventLoop::TimerId Lane::PostAfter(absl::Duration delay, Task task) {
  return loop_->PostAfter(delay,
                          [this, task = std::move(task)]() mutable { Run(std::move(task)); });
}

void Lane::Run(Task task) {
  if (held_ || !waiting_.empty()) {
    waiting_.push_back(std::move(task));
  } else {
    task();
  }
}

void Lane::RunAlone(std::vector<Lane*> lanes, Task task) {
  auto alone = std::make_shared<Alone>();
  alone->lanes = std::move(lanes);
  alone->task = std::move(task);
  TakeNext(std::move(alone));
}

// All who need several take them in the order of their index, so that none waits for another in a
// circle. A lane that is taken does not block its thread: its tasks wait.
void Lane::TakeNext(std::shared_ptr<Alone> alone) {
  if (alone->taken < alone->lanes.size()) {
    Lane* const lane = alone->lanes[alone->taken];
    lane->Post([lane, alone = std::move(alone)]() mutable {
      lane->held_ = true;
      ++alone->taken;
      TakeNext(std::move(alone));
    });
    return;
  }
  alone->task();
  for (Lane* lane : alone->lanes) {
    lane->loop_->Post([lane] { lane->Release(); });
  }
}

void Lane::Release() {
  held_ = false;
  while (!held_ && !waiting_.empty()) {
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    task();
  }
}

}  // namespace coxswain
