// Closures that wait, in the order of their ids, and by group: those of one group are best run by
// one worker, which then reads what they have in common once (data::Dataset::GroupOf). A worker
// stays with its group until no closure of it waits, and has a claim on the one that it takes next,
// so that it can read ahead. Closures without a group belong to nobody.
// Pure. Owned by the coordinator's loop.
//
// No worker is ever idle for this: where all groups are taken, it takes over the group that another
// one would have taken next, and then shares the one with the most closures.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

class GroupQueue {
 public:
  using Group = uint64_t;  // 0: none

  // What is known of a closure, until it is over.
  void SetGroup(ClosureId closure, Group group) {
    if (group != 0) group_of_[closure] = group;
  }
  Group GroupOf(ClosureId closure) const;
  void Forget(ClosureId closure) {
    if (!group_of_.empty()) group_of_.erase(closure);
  }

  // A closure waits; it does so no more, and whether it did.
  void Insert(ClosureId closure);
  bool Erase(ClosureId closure);
  const absl::btree_set<ClosureId>& closures() const { return closures_; }

  // The waiting closure with a group that the worker takes; 0: none waits.
  ClosureId Pick(int worker);
  // The first waiting closure of the group that the worker takes after its present one; 0: nobody
  // knows yet.
  ClosureId Next(int worker);
  // Its groups are free.
  void RemoveWorker(int worker);

 private:
  struct Waiting {
    absl::btree_set<ClosureId> closures;
    ClosureId first = 0;     // of it that ever waited: free groups are taken in this order
    int workers = 0;         // that take from it
    int claimed_by = kFree;  // who takes from it next
  };
  struct Worker {
    Group present = 0, next = 0;
  };
  static constexpr int kFree = -1;

  void AddTo(Group group, ClosureId closure);
  void RemoveFrom(Group group, ClosureId closure);
  bool HasWaiting(Group group) const;
  bool IsFree(const Waiting& w) const { return w.workers == 0 && w.claimed_by == kFree; }
  void Leave(Group group);    // a worker that takes from it
  void Unclaim(Group group);  // who claims it
  void SetFree(Group group);
  // Forgets it where nothing is left.
  void Tidy(Group group);
  // Where closures wait; some do.
  Group ChooseGroup(Worker* worker);
  Group ClaimedByOther() const;  // 0: none
  Group Longest() const;

  absl::btree_set<ClosureId> closures_;
  absl::flat_hash_map<ClosureId, Group> group_of_;
  int64_t waiting_ = 0;  // closures with a group
  absl::flat_hash_map<Group, Waiting> groups_;
  absl::flat_hash_map<int, Worker> workers_;
  std::set<std::pair<ClosureId, Group>> free_;  // with closures that wait
};

}  // namespace coxswain::core
