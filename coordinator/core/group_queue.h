// The queue of closures, in the order of their ids and by group: closures of one group should run
// on one worker, which then reads their common blocks only once (data::Dataset::GroupOf). A worker
// stays with its group until none of its closures waits, and claims the next group in advance, so
// that it can read ahead. Closures without a group may go to any worker. Does no I/O. Owned by the
// coordinator's loop.
//
// This never leaves a worker idle: if all groups are taken, a worker takes over the group that
// another worker has claimed, and failing that shares the group with the most closures.
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

  // Sets the group of a closure, until it is over.
  void SetGroup(ClosureId closure, Group group) {
    if (group != 0) group_of_[closure] = group;
  }
  Group GroupOf(ClosureId closure) const;
  void Forget(ClosureId closure) {
    if (!group_of_.empty()) group_of_.erase(closure);
  }

  // Insert adds a waiting closure. Erase removes it, and returns whether it waited.
  void Insert(ClosureId closure);
  bool Erase(ClosureId closure);
  const absl::btree_set<ClosureId>& closures() const { return closures_; }

  // The waiting closure with a group that the worker takes; 0: none waits.
  ClosureId Pick(int worker);
  // The first waiting closure of the group that the worker takes after its current one; 0: not
  // known yet.
  ClosureId Next(int worker);
  // Frees the worker's groups.
  void RemoveWorker(int worker);

 private:
  struct Waiting {
    absl::btree_set<ClosureId> closures;
    ClosureId first = 0;     // its first closure that ever waited: free groups are taken in this
                             // order
    int workers = 0;         // workers that take from it
    int claimed_by = kFree;  // the worker that takes from it next
  };
  struct Worker {
    Group present = 0, next = 0;
  };
  static constexpr int kFree = -1;

  void AddTo(Group group, ClosureId closure);
  void RemoveFrom(Group group, ClosureId closure);
  bool HasWaiting(Group group) const;
  bool IsFree(const Waiting& w) const { return w.workers == 0 && w.claimed_by == kFree; }
  void Leave(Group group);    // called by a worker that takes from it
  void Unclaim(Group group);  // called by the worker that claims it
  void SetFree(Group group);
  // Removes the group when it is empty.
  void Tidy(Group group);
  // A group with waiting closures; there must be one.
  Group ChooseGroup(Worker* worker);
  Group ClaimedByOther() const;  // 0: none
  Group Longest() const;

  absl::btree_set<ClosureId> closures_;
  absl::flat_hash_map<ClosureId, Group> group_of_;
  int64_t waiting_ = 0;  // closures with a group
  absl::flat_hash_map<Group, Waiting> groups_;
  absl::flat_hash_map<int, Worker> workers_;
  std::set<std::pair<ClosureId, Group>> free_;  // groups with waiting closures
};

}  // namespace coxswain::core
