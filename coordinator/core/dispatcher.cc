#include "coordinator/core/dispatcher.h"

#include <algorithm>

namespace coxswain {

void Dispatcher::Restore(ClosureId low_water, ClosureId next,
                         const std::vector<ClosureId>& pending) {
  low_water_ = low_water;
  next_id_ = next;
  restored_ = std::set<ClosureId>(pending.begin(), pending.end());
  for (ClosureId id = low_water; id < next; ++id) {
    if (restored_.count(id) == 0) Over(id);
  }
}

ClosureId Dispatcher::Schedule() {
  const ClosureId id = next_id_++;
  queue_.push_back(id);
  ++stats_.scheduled;
  return id;
}

bool Dispatcher::ScheduleRestored(ClosureId closure) {
  if (restored_.erase(closure) == 0) return false;
  queue_.push_back(closure);
  ++stats_.scheduled;
  return true;
}

void Dispatcher::AddWorker(int worker) {
  if (workers_.try_emplace(worker).second) SetRoom(worker);
}

// A suspect closure has been on so many lost workers that it runs alone from now on, so that no
// other is blamed with it.
bool Dispatcher::Suspect(ClosureId closure) const {
  if (quarantine_after_ <= 0) return false;
  const auto it = history_.find(closure);
  return it != history_.end() && it->second.losses >= quarantine_after_ - 1;
}

Dispatcher::Removed Dispatcher::RemoveWorker(int worker, bool blame) {
  Removed removed;
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return removed;
  const std::vector<ClosureId> closures(it->second.begin(), it->second.end());
  room_.erase({static_cast<int>(closures.size()), worker});
  alone_.erase(worker);
  workers_.erase(it);
  for (auto id = closures.rbegin(); id != closures.rend(); ++id) {
    running_.erase(*id);
    if (blame && ++history_[*id].losses >= quarantine_after_ && quarantine_after_ > 0) {
      removed.quarantined.push_back(*id);
      ++stats_.failed;
      Over(*id);
      continue;
    }
    queue_.push_front(*id);
    ++removed.requeued;
  }
  return removed;
}

// Enters the worker among those with room, by its load.
void Dispatcher::SetRoom(int worker) {
  const int load = static_cast<int>(workers_.at(worker).size());
  if (load < in_flight_ && alone_.count(worker) == 0) room_.insert({load, worker});
}

void Dispatcher::Unassign(ClosureId closure, int worker) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  room_.erase({static_cast<int>(it->second.size()), worker});
  it->second.erase(closure);
  alone_.erase(worker);
  SetRoom(worker);
}

void Dispatcher::Over(ClosureId closure) {
  history_.erase(closure);
  if (!after_.empty()) after_.erase(closure);
  if (!again_.empty()) again_.erase(closure);
  over_above_low_water_.insert(closure);
  while (!over_above_low_water_.empty() && *over_above_low_water_.begin() == low_water_) {
    over_above_low_water_.erase(over_above_low_water_.begin());
    ++low_water_;
  }
}

bool Dispatcher::IsCurrent(ClosureId closure, uint32_t attempt) const {
  const auto it = running_.find(closure);
  return it != running_.end() && it->second.attempt == attempt;
}

bool Dispatcher::Complete(ClosureId closure, uint32_t attempt, bool ok) {
  const auto it = running_.find(closure);
  if (it == running_.end() || it->second.attempt != attempt) return false;
  const int worker = it->second.worker;
  running_.erase(it);
  Unassign(closure, worker);
  if (!runs_again(closure)) ++(ok ? stats_.completed : stats_.failed);
  Over(closure);
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

std::vector<ClosureId> Dispatcher::CancelQueued(const Filter& filter) {
  std::vector<ClosureId> cancelled;
  std::deque<ClosureId> kept;
  for (ClosureId id : queue_) {
    if (!runs_again(id) && filter(id)) {
      cancelled.push_back(id);
    } else {
      kept.push_back(id);
    }
  }
  queue_ = std::move(kept);
  for (ClosureId id : cancelled) Over(id);
  stats_.failed += cancelled.size();
  return cancelled;
}

std::vector<std::pair<ClosureId, int>> Dispatcher::Running() const {
  std::vector<std::pair<ClosureId, int>> running;
  running.reserve(running_.size());
  for (const auto& [id, attempt] : running_) running.push_back({id, attempt.worker});
  std::sort(running.begin(), running.end());
  return running;
}

std::vector<ClosureId> Dispatcher::CancelAll() {
  again_.clear();
  std::vector<ClosureId> cancelled = CancelQueued([](ClosureId) { return true; });
  const auto running = Running();
  running_.clear();
  for (const auto& [id, worker] : running) {
    Unassign(id, worker);
    Over(id);
    ++stats_.failed;
    cancelled.push_back(id);
  }
  return cancelled;
}

void Dispatcher::RunAgain(const std::vector<Rerun>& closures) {
  if (closures.empty()) return;
  std::vector<ClosureId> waiting(queue_.begin(), queue_.end());
  for (const Rerun& r : closures) {
    waiting.push_back(r.closure);
    again_.insert(r.closure);
    after_[r.closure] = r.after;
    // What is still heard of an attempt from before must not be taken for news of this run.
    History& history = history_[r.closure];
    history.attempts = history.before = highest_attempt_;
  }
  stats_.rerun += closures.size();
  std::sort(waiting.begin(), waiting.end());
  queue_.assign(waiting.begin(), waiting.end());
  // What lies between and does not run again stays over.
  const ClosureId low = std::min(low_water_, queue_.front());
  std::set<ClosureId> over;
  size_t next_waiting = 0;
  for (ClosureId id = low; id < low_water_; ++id) {
    while (next_waiting < waiting.size() && waiting[next_waiting] < id) ++next_waiting;
    if (next_waiting == waiting.size() || waiting[next_waiting] != id) over.insert(over.end(), id);
  }
  for (ClosureId id : over_above_low_water_) {
    if (again_.count(id) == 0) over.insert(over.end(), id);
  }
  over_above_low_water_ = std::move(over);
  low_water_ = low;
  while (!over_above_low_water_.empty() && *over_above_low_water_.begin() == low_water_) {
    over_above_low_water_.erase(over_above_low_water_.begin());
    ++low_water_;
  }
}

bool Dispatcher::MayStart(ClosureId closure) const {
  if (after_.empty()) return true;
  const auto it = after_.find(closure);
  return it == after_.end() || it->second <= low_water_;
}

std::vector<Dispatcher::Assignment> Dispatcher::TakeAssignments() {
  std::vector<Assignment> assignments;
  while (!queue_.empty() && !room_.empty()) {
    const auto [load, worker] = *room_.begin();
    const ClosureId id = queue_.front();
    if (!MayStart(id)) break;
    const bool suspect = Suspect(id);
    if (suspect && load > 0) break;  // until a worker is empty
    queue_.pop_front();
    room_.erase(room_.begin());
    workers_[worker].insert(id);
    if (suspect) alone_.insert(worker);
    SetRoom(worker);
    History& history = history_[id];
    const uint32_t attempt = ++history.attempts;
    highest_attempt_ = std::max(highest_attempt_, attempt);
    if (attempt > history.before + 1) ++stats_.retried;
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
