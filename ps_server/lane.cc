#include "ps_server/lane.h"

#include <utility>

namespace coxswain::ps {

// A task that needs several lanes, and the number of lanes that it holds.
struct Lane::Alone {
  std::vector<Lane*> lanes;
  size_t taken = 0;
  Task task;
  bool is_long = false;
};

void Lane::PostTo(Task task, bool is_long) {
  if (is_long) {
    loop_->PostLong(std::move(task));
  } else {
    loop_->Post(std::move(task));
  }
}

void Lane::Post(Task task) {
  loop_->Post([this, task = std::move(task)]() mutable { Run(std::move(task), false); });
}

void Lane::PostLong(Task task) {
  loop_->PostLong([this, task = std::move(task)]() mutable { Run(std::move(task), true); });
}

env::EventLoop::TimerId Lane::PostAfter(absl::Duration delay, Task task) {
  return loop_->PostAfter(
      delay, [this, task = std::move(task)]() mutable { Run(std::move(task), false); });
}

void Lane::Run(Task task, bool is_long) {
  if (held_ || !waiting_.empty()) {
    waiting_.push_back({std::move(task), is_long});
  } else {
    task();
  }
}

void Lane::RunAlone(std::vector<Lane*> lanes, Task task, bool is_long) {
  auto alone = std::make_shared<Alone>();
  alone->lanes = std::move(lanes);
  alone->task = std::move(task);
  alone->is_long = is_long;
  TakeNext(std::move(alone));
}

// All tasks that need several lanes take them in the order of their index, which avoids deadlock. A
// lane that is taken does not block its thread: its tasks wait.
void Lane::TakeNext(std::shared_ptr<Alone> alone) {
  if (alone->taken < alone->lanes.size()) {
    Lane* const lane = alone->lanes[alone->taken];
    // The task runs in the turn of the last lane.
    const bool is_long = alone->is_long && alone->taken + 1 == alone->lanes.size();
    Task take = [lane, alone = std::move(alone)]() mutable {
      lane->held_ = true;
      ++alone->taken;
      TakeNext(std::move(alone));
    };
    if (is_long) {
      lane->PostLong(std::move(take));
    } else {
      lane->Post(std::move(take));
    }
    return;
  }
  alone->task();
  for (Lane* lane : alone->lanes) {
    lane->loop_->Post([lane] {
      lane->held_ = false;
      lane->RunWaiting();
    });
  }
}

void Lane::RunWaiting() {
  if (held_ || waiting_.empty()) return;
  const bool is_long = waiting_.front().is_long;
  PostTo(
      [this] {
        Waiting next = std::move(waiting_.front());
        waiting_.pop_front();
        next.task();
        RunWaiting();
      },
      is_long);
}

bool Lane::Park(ClosureId after, Task task, bool is_long) {
  if (parked_.size() >= kMostParked) return false;
  parked_.push_back({after, std::move(task), is_long});
  return true;
}

template <typename Wanted>
void Lane::UnparkThose(Wanted wanted) {
  std::vector<Parked> left;
  for (Parked& parked : std::exchange(parked_, {})) {
    if (!wanted(parked)) {
      left.push_back(std::move(parked));
    } else if (parked.is_long) {
      PostLong(std::move(parked.task));
    } else {
      Post(std::move(parked.task));
    }
  }
  for (Parked& parked : parked_) left.push_back(std::move(parked));
  parked_ = std::move(left);
}

void Lane::Unpark() {
  if (parked_.empty()) return;
  UnparkThose([this](const Parked& parked) { return store_.sync().Applied(parked.after); });
}

void Lane::ForgetSteps() {
  store_.sync().Clear();
  UnparkThose([](const Parked&) { return true; });
}

}  // namespace coxswain::ps
