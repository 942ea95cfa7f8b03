#include "coordinator/core/group_queue.h"

#include <algorithm>

namespace coxswain::core {

GroupQueue::Group GroupQueue::GroupOf(ClosureId closure) const {
  if (group_of_.empty()) return 0;
  const auto it = group_of_.find(closure);
  return it == group_of_.end() ? 0 : it->second;
}

void GroupQueue::Insert(ClosureId closure) {
  closures_.insert(closures_.end(), closure);
  if (const Group group = GroupOf(closure); group != 0) AddTo(group, closure);
}

bool GroupQueue::Erase(ClosureId closure) {
  if (closures_.erase(closure) == 0) return false;
  if (const Group group = GroupOf(closure); group != 0) RemoveFrom(group, closure);
  return true;
}

void GroupQueue::AddTo(Group group, ClosureId closure) {
  Waiting& w = groups_[group];
  if (w.first == 0) w.first = closure;
  if (!w.closures.insert(closure).second) return;
  ++waiting_;
  if (IsFree(w)) free_.insert({w.first, group});
}

void GroupQueue::RemoveFrom(Group group, ClosureId closure) {
  const auto it = groups_.find(group);
  if (it == groups_.end() || it->second.closures.erase(closure) == 0) return;
  --waiting_;
  Tidy(group);
}

bool GroupQueue::HasWaiting(Group group) const {
  const auto it = groups_.find(group);
  return it != groups_.end() && !it->second.closures.empty();
}

void GroupQueue::Tidy(Group group) {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return;
  Waiting& w = it->second;
  if (!w.closures.empty()) return;
  free_.erase({w.first, group});
  if (IsFree(w)) groups_.erase(it);
}

void GroupQueue::SetFree(Group group) {
  const Waiting& w = groups_.at(group);
  if (IsFree(w) && !w.closures.empty()) free_.insert({w.first, group});
  Tidy(group);
}

void GroupQueue::Leave(Group group) {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return;
  --it->second.workers;
  SetFree(group);
}

void GroupQueue::Unclaim(Group group) {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return;
  it->second.claimed_by = kFree;
  SetFree(group);
}

GroupQueue::Group GroupQueue::ClaimedByOther() const {
  std::pair<ClosureId, Group> first{0, 0};
  for (const auto& [group, w] : groups_) {
    if (w.closures.empty() || w.claimed_by == kFree || w.workers > 0) continue;
    const std::pair<ClosureId, Group> candidate{w.first, group};
    if (first.second == 0 || candidate < first) first = candidate;
  }
  return first.second;
}

GroupQueue::Group GroupQueue::Longest() const {
  std::pair<size_t, Group> longest{0, 0};
  for (const auto& [group, w] : groups_) {
    longest = std::max(longest, {w.closures.size(), group});
  }
  return longest.second;
}

ClosureId GroupQueue::Pick(int worker) {
  if (waiting_ == 0) return 0;
  Worker& at = workers_[worker];
  if (at.present == 0 || !HasWaiting(at.present)) {
    if (at.present != 0) Leave(std::exchange(at.present, 0));
    at.present = ChooseGroup(&at);
    Waiting& w = groups_.at(at.present);
    free_.erase({w.first, at.present});
    if (w.claimed_by != kFree) workers_.at(std::exchange(w.claimed_by, kFree)).next = 0;
    ++w.workers;
  }
  return *groups_.at(at.present).closures.begin();
}

GroupQueue::Group GroupQueue::ChooseGroup(Worker* worker) {
  if (const Group next = std::exchange(worker->next, 0); next != 0) {
    Unclaim(next);
    if (HasWaiting(next)) return next;
  }
  if (!free_.empty()) return free_.begin()->second;
  const Group other = ClaimedByOther();
  return other != 0 ? other : Longest();
}

ClosureId GroupQueue::Next(int worker) {
  Worker& at = workers_[worker];
  if (at.next != 0 && !HasWaiting(at.next)) Unclaim(std::exchange(at.next, 0));
  if (at.next == 0) {
    if (free_.empty()) return 0;
    at.next = free_.begin()->second;
    free_.erase(free_.begin());
    groups_.at(at.next).claimed_by = worker;
  }
  return *groups_.at(at.next).closures.begin();
}

void GroupQueue::RemoveWorker(int worker) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  const Worker left = it->second;
  workers_.erase(it);
  if (left.present != 0) Leave(left.present);
  if (left.next != 0) Unclaim(left.next);
}

}  // namespace coxswain::core
