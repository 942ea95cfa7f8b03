// Closures and workers, the end of attempts, closures that run again, and last the assignments
// (TakeAssignments), including trials.
#include "coordinator/core/dispatcher.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace coxswain::core {
namespace {

// Of this many workers, at most one is kept for suspect closures, but always one if needed.
constexpr size_t kWorkersPerTrial = 4;

}  // namespace

void Dispatcher::Restore(ClosureId low_water, ClosureId next,
                         const std::vector<ClosureId>& pending) {
  low_water_ = low_water;
  next_id_ = next;
  restored_ = absl::btree_set<ClosureId>(pending.begin(), pending.end());
  for (ClosureId id = low_water; id < next; ++id) {
    if (restored_.count(id) == 0) Over(id);
  }
}

ClosureId Dispatcher::Schedule(GroupQueue::Group group) {
  const ClosureId id = next_id_++;
  queue_.SetGroup(id, group);
  queue_.Insert(id);
  ++stats_.scheduled;
  return id;
}

bool Dispatcher::ScheduleRestored(ClosureId closure, GroupQueue::Group group) {
  if (restored_.erase(closure) == 0) return false;
  queue_.SetGroup(closure, group);
  queue_.Insert(closure);
  ++stats_.scheduled;
  LookAgain();  // its step may be complete
  return true;
}

void Dispatcher::ResumeSteps() {
  gate_.StopStepsAt(StartGate::kNever);
  LookAgain();
}

bool Dispatcher::AwaitsRestored(ClosureId first, ClosureId end) const {
  const auto next = restored_.lower_bound(first);
  return next != restored_.end() && *next < end;
}

bool Dispatcher::StepAwaitsRestored(ClosureId closure) const {
  if (restored_.empty()) return false;
  const StartGate::Step* const step = gate_.StepOf(closure);
  return step != nullptr && AwaitsRestored(step->first, step->end);
}

void Dispatcher::AddWorker(int worker) {
  if (!workers_.try_emplace(worker).second) return;
  SetRoom(worker);
  LookAgain();
}

int Dispatcher::RemoveWorker(int worker, bool blame, absl::Duration now) {
  std::vector<ClosureId> closures;
  if (const auto it = workers_.find(worker); it != workers_.end()) {
    closures.assign(it->second.begin(), it->second.end());
    room_.erase({static_cast<int>(closures.size()), worker});
    kept_.erase(worker);
    workers_.erase(it);
    queue_.RemoveWorker(worker);
  }
  if (blame) quarantine_.OnLoss(closures, now);
  LookAgain();
  for (ClosureId id : closures) {
    running_.erase(id);
    Requeue(id);
  }
  return static_cast<int>(closures.size());
}

void Dispatcher::Blame(const std::vector<ClosureId>& closures, absl::Duration now) {
  std::vector<ClosureId> open;
  for (const ClosureId id : closures) {
    if (id >= low_water_ && over_above_low_water_.count(id) == 0) open.push_back(id);
  }
  // A closure ran alone only if nothing else ran on the worker.
  if (!open.empty() && open.size() == closures.size()) quarantine_.OnLoss(open, now);
  LookAgain();
}

void Dispatcher::Requeue(ClosureId closure) {
  if (quarantine_.IsSuspect(closure)) {
    PutAside(closure);
  } else if (lateness_.count(closure) > 0) {
    late_.insert(closure);
  } else {
    queue_.Insert(closure);
  }
}

void Dispatcher::PutAside(ClosureId closure) {
  aside_.insert(closure);
  next_time_ = absl::ZeroDuration();
}

// Adds the worker to those with room, by its load.
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
    next_time_ = absl::ZeroDuration();  // another closure may have its trial
  }
  SetRoom(worker);
}

void Dispatcher::Over(ClosureId closure) {
  history_.erase(closure);
  queue_.Forget(closure);
  quarantine_.Forget(closure);
  gate_.Forget(closure);
  LookAgain();  // what waits for it may be tried
  if (!again_.empty()) again_.erase(closure);
  if (!lateness_.empty() && lateness_.erase(closure) > 0) {
    overdue_attempts_.erase(overdue_attempts_.lower_bound({closure, 0}),
                            overdue_attempts_.lower_bound({closure + 1, 0}));
  }
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
  const bool overdue_but_good = ok && overdue_attempts_.count({closure, attempt}) > 0;
  if (!IsCurrent(closure, attempt) && !overdue_but_good) return false;
  Withdraw(closure);
  if (!runs_again(closure)) ++(ok ? stats_.completed : stats_.failed);
  Over(closure);
  return true;
}

bool Dispatcher::Settle(ClosureId closure, uint32_t attempt) {
  const bool overdue_but_good = overdue_attempts_.count({closure, attempt}) > 0;
  if (!IsCurrent(closure, attempt) && !overdue_but_good) return false;
  if (!gate_.Settle(closure)) return false;
  Withdraw(closure);
  return true;
}

void Dispatcher::Conclude(ClosureId closure) {
  if (!gate_.Unsettle(closure)) return;
  if (!runs_again(closure)) ++stats_.completed;
  Over(closure);
}

void Dispatcher::Drop(ClosureId closure) {
  Withdraw(closure);
  if (!runs_again(closure)) ++stats_.failed;
  Over(closure);
}

void Dispatcher::Unsettle(ClosureId closure) {
  if (gate_.Unsettle(closure)) Requeue(closure);
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

void Dispatcher::Withdraw(ClosureId closure) {
  if (const auto it = running_.find(closure); it != running_.end()) {
    const int worker = it->second.worker;
    running_.erase(it);
    Unassign(closure, worker);
    return;
  }
  if (queue_.Erase(closure) || late_.erase(closure) > 0) return;
  if (aside_.erase(closure) > 0) LeaveWorker(closure);
}

void Dispatcher::Overdue(ClosureId closure) {
  const auto it = running_.find(closure);
  if (it == running_.end()) return;
  const Attempt attempt = it->second;
  Withdraw(closure);
  Lateness& lateness = lateness_[closure];
  ++lateness.times;
  lateness.workers.insert(attempt.worker);
  overdue_attempts_.insert({closure, attempt.attempt});
  Requeue(closure);
}

int Dispatcher::overdue(ClosureId closure) const {
  const auto it = lateness_.find(closure);
  return it == lateness_.end() ? 0 : it->second.times;
}

void Dispatcher::GiveUp(ClosureId closure) {
  if (running_.count(closure) == 0) return;
  Withdraw(closure);
  if (!runs_again(closure)) ++stats_.failed;
  Over(closure);
}

std::vector<ClosureId> Dispatcher::CancelQueued(const Filter& filter) {
  std::vector<ClosureId> cancelled;
  const auto cancel = [&](const absl::btree_set<ClosureId>& waiting) {
    std::copy_if(waiting.begin(), waiting.end(), std::back_inserter(cancelled),
                 [&](ClosureId id) { return !runs_again(id) && filter(id); });
  };
  cancel(aside_);
  cancel(late_);
  cancel(queue_.closures());
  for (ClosureId id : cancelled) {
    Withdraw(id);
    Over(id);
  }
  stats_.failed += cancelled.size();
  return cancelled;
}

bool Dispatcher::CancelQueued(ClosureId closure) {
  const bool waits =
      queue_.closures().count(closure) > 0 || late_.count(closure) > 0 || aside_.count(closure) > 0;
  if (!waits || runs_again(closure)) return false;
  Withdraw(closure);
  Over(closure);
  ++stats_.failed;
  return true;
}

std::optional<int> Dispatcher::WorkerOf(ClosureId closure) const {
  const auto it = running_.find(closure);
  if (it == running_.end()) return std::nullopt;
  return it->second.worker;
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
  for (const ClosureId id : std::set<ClosureId>(gate_.settled())) {
    Over(id);
    ++stats_.failed;
    cancelled.push_back(id);
  }
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
  // Set-aside closures go back to the queue, where they may wait for others again; suspects are set
  // aside when their turn comes.
  for (auto* waiting : {&aside_, &late_}) {
    for (const ClosureId id : *waiting) queue_.Insert(id);
    waiting->clear();
  }
  overdue_attempts_.clear();
  // Closures in between that do not run again stay over.
  ClosureId between = closures.front().closure;
  const ClosureId mark = low_water_;
  low_water_ = std::min(low_water_, between);
  for (const Rerun& r : closures) {
    for (; between < std::min(mark, r.closure); ++between) over_above_low_water_.insert(between);
    between = r.closure + 1;
    over_above_low_water_.erase(r.closure);
    queue_.Insert(r.closure);
    again_.insert(r.closure);
    gate_.SetAfter(r.closure, r.after);
    // Late reports of earlier attempts must not be taken for reports of this run.
    History& history = history_[r.closure];
    history.attempts = history.before = highest_attempt_;
  }
  for (; between < mark; ++between) over_above_low_water_.insert(between);
  stats_.rerun += closures.size();
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
  ClosureId ahead = 0;
  if (queue_.GroupOf(closure) != 0) {
    ahead = queue_.Next(worker);
    if (ahead == 0) ahead = closure;
  }
  return {closure, worker, attempt, ahead};
}

ClosureId Dispatcher::Pick(int worker, ClosureId oldest) {
  // Closures that must wait for others start in order.
  if (gate_.ordered() || queue_.GroupOf(oldest) == 0) return oldest;
  const ClosureId picked = queue_.Pick(worker);
  const bool may =
      picked - low_water_ < window_ && !quarantine_.IsSuspect(picked) && MayStart(picked);
  return may ? picked : oldest;
}

int Dispatcher::RoomElsewhere(ClosureId closure) const {
  const auto it = lateness_.find(closure);
  const auto elsewhere = [&](int worker) {
    return it == lateness_.end() || it->second.workers.count(worker) == 0;
  };
  for (const auto& [load, worker] : room_) {
    if (elsewhere(worker)) return worker;
  }
  const bool anywhere = std::any_of(workers_.begin(), workers_.end(),
                                    [&](const auto& w) { return elsewhere(w.first); });
  if (gate_.InStep(closure) && (anywhere || room_.empty())) {
    const bool known = anywhere && it != lateness_.end();
    return RoomBeforeLaterSteps(closure, known ? it->second.workers : std::set<int>());
  }
  return anywhere || room_.empty() ? -1 : room_.begin()->second;
}

int Dispatcher::RoomBeforeLaterSteps(ClosureId closure, const std::set<int>& but_not) const {
  const StartGate::Step* const step = gate_.StepOf(closure);
  if (step == nullptr) return -1;
  std::pair<int, int> emptiest{in_flight_, -1};
  for (const auto& [worker, closures] : workers_) {
    if (kept_.count(worker) > 0 || but_not.count(worker) > 0) continue;
    const auto later = closures.lower_bound(step->end);
    const int before = static_cast<int>(std::distance(closures.begin(), later));
    if (before < emptiest.first || (before == emptiest.first && worker < emptiest.second)) {
      emptiest = {before, worker};
    }
  }
  return emptiest.second;
}

void Dispatcher::TakeLaterSteps(ClosureId closure, int worker) {
  const StartGate::Step* const step = gate_.StepOf(closure);
  if (step == nullptr) return;
  const std::set<ClosureId> has = workers_.at(worker);
  for (auto it = has.lower_bound(step->end); it != has.end(); ++it) {
    if (!gate_.InStep(*it)) continue;
    Withdraw(*it);
    Requeue(*it);
    next_time_ = absl::ZeroDuration();  // others may have room
  }
}

bool Dispatcher::MayBeTried(ClosureId closure) const {
  const StartGate::Step* const step = gate_.StepOf(closure);
  return step == nullptr || low_water_ >= step->first;
}

std::vector<Dispatcher::Assignment> Dispatcher::TakeAssignments(absl::Duration now) {
  std::vector<Assignment> assignments;
  for (auto it = late_.begin(); it != late_.end();) {
    const ClosureId id = *it;
    if (quarantine_.IsSuspect(id)) {
      it = late_.erase(it);
      PutAside(id);
      continue;
    }
    // Shards may have gone back since it was late, so that its step has not begun, and may not
    // while a checkpoint is written.
    const int worker = MayStart(id) ? RoomElsewhere(id) : -1;
    if (worker < 0) {
      ++it;
      continue;
    }
    it = late_.erase(it);
    assignments.push_back(Assign(id, worker));
  }
  LeaveWorkersOfThoseThatWait();
  held_back_ = false;
  while (!queue_.closures().empty()) {
    ClosureId id = *queue_.closures().begin();
    if (!MayStart(id)) break;
    // Steps that are not free are three at most. All of a step may start where its first one may,
    // for it is over as a whole.
    if (gate_.FirstOf(id) - low_water_ >= window_ && !gate_.InStep(id)) {
      held_back_ = true;
      break;
    }
    if (quarantine_.IsSuspect(id)) {
      PutAside(id);
    } else if (!room_.empty()) {
      const int worker = room_.begin()->second;
      id = Pick(worker, id);
      assignments.push_back(Assign(id, worker));
    } else if (const int worker = RoomBeforeLaterSteps(id, {}); worker >= 0) {
      assignments.push_back(Assign(id, worker));
    } else {
      break;
    }
    queue_.Erase(id);
  }
  if (now >= next_time_) KeepWorkers(now);
  for (const auto& [worker, id] : kept_) {
    if (aside_.count(id) == 0) continue;
    TakeLaterSteps(id, worker);
    if (!workers_.at(worker).empty()) continue;
    aside_.erase(id);
    assignments.push_back(Assign(id, worker));
  }
  return assignments;
}

// What was set aside may have to wait for others since a worker was kept for it: shards may have
// gone back, or a checkpoint is due. Those others may need the worker.
void Dispatcher::LeaveWorkersOfThoseThatWait() {
  if (kept_.empty()) return;
  for (const ClosureId id : aside_) {
    if (!MayStart(id)) LeaveWorker(id);
  }
}

// Keeps workers for closures that may run on trial; other closures use the remaining workers.
void Dispatcher::KeepWorkers(absl::Duration now) {
  next_time_ = absl::InfiniteDuration();
  std::vector<ClosureId> may_run;
  for (ClosureId id : aside_) {
    const absl::Duration when = quarantine_.NextTime(id);
    if (now >= when && !quarantine_.IsAccused(id)) {
      if (MayBeTried(id) && MayStart(id)) may_run.push_back(id);
      continue;
    }
    next_time_ = std::min(next_time_, when);
    LeaveWorker(id);  // the worker was lost before the trial began
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

}  // namespace coxswain::core
