#include "coordinator/core/dispatcher.h"

#include <algorithm>

namespace coxswain {

ClosureId Dispatcher::Schedule() {
  const ClosureId id = next_id_++;
  queue_.push_back(id);
  ++stats_.scheduled;
  return id;
}

void Dispatcher::AddWorker(int worker) {
  if (workers_.try_emplace(worker).second) room_.insert({0, worker});
}

int Dispatcher::RemoveWorker(int worker) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return 0;
  std::vector<ClosureId> closures(it->second.begin(), it->second.end());
  std::sort(closures.begin(), closures.end());
  room_.erase({static_cast<int>(closures.size()), worker});
  workers_.erase(it);
  for (auto id = closures.rbegin(); id != closures.rend(); ++id) {
    running_.erase(*id);
    queue_.push_front(*id);
  }
  return static_cast<int>(closures.size());
}

void Dispatcher::Unassign(ClosureId closure, int worker) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  room_.erase({static_cast<int>(it->second.size()), worker});
  it->second.erase(closure);
  room_.insert({static_cast<int>(it->second.size()), worker});
}

void Dispatcher::Over(ClosureId closure) {
  attempts_.erase(closure);
  over_above_low_water_.insert(closure);
  while (!over_above_low_water_.empty() && *over_above_low_water_.begin() == low_water_) {
    over_above_low_water_.erase(over_above_low_water_.begin());
    ++low_water_;
  }
}

bool Dispatcher::Complete(ClosureId closure, uint32_t attempt, bool ok) {
  const auto it = running_.find(closure);
  if (it == running_.end() || it->second.attempt != attempt) return false;
  const int worker = it->second.worker;
  running_.erase(it);
  Unassign(closure, worker);
  Over(closure);
  ++(ok ? stats_.completed : stats_.failed);
  return true;
}

bool Dispatcher::Retry(ClosureId closure, uint32_t attempt) {
  const auto it = running_.find(closure);
  if (it == running_.end() || it->second.attempt != attempt) return false;
  const int worker = it->second.worker;
  running_.erase(it);
  Unassign(closure, worker);
  queue_.push_front(closure);
  return true;
}

std::vector<ClosureId> Dispatcher::CancelQueued() {
  std::vector<ClosureId> cancelled(queue_.begin(), queue_.end());
  queue_.clear();
  for (ClosureId id : cancelled) Over(id);
  stats_.failed += cancelled.size();
  return cancelled;
}

std::vector<ClosureId> Dispatcher::CancelAll() {
  std::vector<ClosureId> cancelled = CancelQueued();
  std::vector<std::pair<ClosureId, int>> running;
  for (const auto& [id, r] : running_) running.push_back({id, r.worker});
  std::sort(running.begin(), running.end());
  running_.clear();
  for (const auto& [id, worker] : running) {
    Unassign(id, worker);
    Over(id);
    ++stats_.failed;
    cancelled.push_back(id);
  }
  return cancelled;
}

std::vector<Dispatcher::Assignment> Dispatcher::TakeAssignments() {
  std::vector<Assignment> assignments;
  while (!queue_.empty() && !room_.empty()) {
    const auto [load, worker] = *room_.begin();
    if (load >= in_flight_) break;
    const ClosureId id = queue_.front();
    queue_.pop_front();
    room_.erase(room_.begin());
    room_.insert({load + 1, worker});
    workers_[worker].insert(id);
    const uint32_t attempt = ++attempts_[id];
    if (attempt > 1) ++stats_.retried;
    running_[id] = {worker, attempt};
    assignments.push_back({id, worker, attempt});
  }
  return assignments;
}

int Dispatcher::load(int worker) const {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? -1 : static_cast<int>(it->second.size());
}

}  // namespace coxswain
