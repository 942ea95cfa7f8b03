#include "coordinator/core/dispatcher.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace coxswain {
namespace {

// At most one worker of so many is kept for a suspect closure, but always one if need be.
constexpr size_t kWorkersPerTrial = 4;

}  // namespace

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
  if (!workers_.try_emplace(worker).second) return;
  SetRoom(worker);
  if (!aside_.empty()) next_time_ = absl::ZeroDuration();
}

int Dispatcher::RemoveWorker(int worker, bool blame, absl::Duration now) {
  std::vector<ClosureId> closures;
  if (const auto it = workers_.find(worker); it != workers_.end()) {
    closures.assign(it->second.begin(), it->second.end());
    room_.erase({static_cast<int>(closures.size()), worker});
    kept_.erase(worker);
    workers_.erase(it);
  }
  if (blame) quarantine_.OnLoss(closures, now);
  if (!aside_.empty()) next_time_ = absl::ZeroDuration();
  for (auto id = closures.rbegin(); id != closures.rend(); ++id) {
    running_.erase(*id);
    Requeue(*id);
  }
  return static_cast<int>(closures.size());
}

void Dispatcher::Requeue(ClosureId closure) {
  if (quarantine_.IsSuspect(closure)) {
    PutAside(closure);
  } else {
    queue_.push_front(closure);
  }
}

void Dispatcher::PutAside(ClosureId closure) {
  aside_.insert(closure);
  next_time_ = absl::ZeroDuration();
}

// Enters the worker among those with room, by its load.
void Dispatcher::SetRoom(int worker) {
  const int load = static_cast<int>(workers_.at(worker).size());
  if (load < in_flight_ && kept_.count(worker) == 0) room_.insert({load, worker});
}

void Dispatcher::Unassign(ClosureId closure, int worker) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  room_.erase({static_cast<int>(it->second.size()), worker});
  it->second.erase(closure);
  if (const auto kept = kept_.find(worker); kept != kept_.end() && kept->second == closure) {
    kept_.erase(kept);
    next_time_ = absl::ZeroDuration();  // another one's turn
  }
  SetRoom(worker);
}

void Dispatcher::Over(ClosureId closure) {
  history_.erase(closure);
  quarantine_.Forget(closure);
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
  Requeue(closure);
  return true;
}

std::vector<ClosureId> Dispatcher::CancelQueued(const Filter& filter) {
  const auto wanted = [&](ClosureId id) { return !runs_again(id) && filter(id); };
  std::vector<ClosureId> cancelled;
  std::copy_if(aside_.begin(), aside_.end(), std::back_inserter(cancelled), wanted);
  for (ClosureId id : cancelled) {
    aside_.erase(id);
    LeaveWorker(id);
  }
  std::deque<ClosureId> left;
  for (ClosureId id : queue_) {
    if (wanted(id)) {
      cancelled.push_back(id);
    } else {
      left.push_back(id);
    }
  }
  queue_ = std::move(left);
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
  // They wait for others again, perhaps; suspect ones stand aside when it is their turn.
  waiting.insert(waiting.end(), aside_.begin(), aside_.end());
  aside_.clear();
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

Dispatcher::Assignment Dispatcher::Assign(ClosureId closure, int worker) {
  auto& closures = workers_[worker];
  room_.erase({static_cast<int>(closures.size()), worker});
  closures.insert(closure);
  SetRoom(worker);
  History& history = history_[closure];
  const uint32_t attempt = ++history.attempts;
  highest_attempt_ = std::max(highest_attempt_, attempt);
  if (attempt > history.before + 1) ++stats_.retried;
  running_[closure] = {worker, attempt};
  return {closure, worker, attempt};
}

std::vector<Dispatcher::Assignment> Dispatcher::TakeAssignments(absl::Duration now) {
  std::vector<Assignment> assignments;
  while (!queue_.empty()) {
    const ClosureId id = queue_.front();
    if (!MayStart(id)) break;
    if (quarantine_.IsSuspect(id)) {
      PutAside(id);
    } else if (!room_.empty()) {
      assignments.push_back(Assign(id, room_.begin()->second));
    } else {
      break;
    }
    queue_.pop_front();
  }
  if (now >= next_time_) KeepWorkers(now);
  for (const auto& [worker, id] : kept_) {
    if (aside_.count(id) == 0 || !workers_.at(worker).empty()) continue;
    aside_.erase(id);
    assignments.push_back(Assign(id, worker));
  }
  return assignments;
}

// Keeps workers for those that may run on trial; the other closures have the others.
void Dispatcher::KeepWorkers(absl::Duration now) {
  next_time_ = absl::InfiniteDuration();
  std::vector<ClosureId> may_run;
  for (ClosureId id : aside_) {
    const absl::Duration when = quarantine_.NextTime(id);
    if (now >= when && !quarantine_.IsAccused(id)) {
      may_run.push_back(id);
      continue;
    }
    next_time_ = std::min(next_time_, when);
    LeaveWorker(id);  // one was lost before the trial began
  }
  const size_t most =
      quarantine_.one_at_a_time() ? 1 : std::max(size_t{1}, workers_.size() / kWorkersPerTrial);
  for (ClosureId id : may_run) {
    if (kept_.size() >= std::min(most, workers_.size())) break;  // until a trial is over
    if (WorkerKeptFor(id) >= 0) continue;
    std::pair<size_t, int> emptiest{std::numeric_limits<size_t>::max(), 0};
    for (const auto& [worker, closures] : workers_) {
      if (kept_.count(worker) == 0) emptiest = std::min(emptiest, {closures.size(), worker});
    }
    const auto [load, worker] = emptiest;
    room_.erase({static_cast<int>(load), worker});
    kept_[worker] = id;
  }
}

std::vector<ClosureId> Dispatcher::TakeQuarantined(absl::Duration now) {
  std::vector<ClosureId> quarantined;
  if (now < next_time_) return quarantined;
  for (ClosureId id : aside_) {
    if (quarantine_.IsAccused(id) && now >= quarantine_.NextTime(id)) quarantined.push_back(id);
  }
  for (ClosureId id : quarantined) {
    aside_.erase(id);
    if (!runs_again(id)) ++stats_.failed;
    Over(id);
  }
  return quarantined;
}

int Dispatcher::WorkerKeptFor(ClosureId closure) const {
  for (const auto& [worker, id] : kept_) {
    if (id == closure) return worker;
  }
  return -1;
}

void Dispatcher::LeaveWorker(ClosureId closure) {
  const int worker = WorkerKeptFor(closure);
  if (worker < 0) return;
  kept_.erase(worker);
  SetRoom(worker);
}

int Dispatcher::load(int worker) const {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? -1 : static_cast<int>(it->second.size());
}

}  // namespace coxswain
