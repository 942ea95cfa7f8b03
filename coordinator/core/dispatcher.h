// Which closure runs where: the coordinator's scheduling as a pure state machine. Events in,
// actions out; no thread, clock, socket or callback of its own: time is passed in. Owned by the
// coordinator's loop.
//
// A closure that may have taken down its workers (quarantine.h) stands aside until it may run on
// trial: on a worker that is kept for it, with nothing beside it. The others go on meanwhile.
//
// A closure whose attempt took too long runs again elsewhere, where there is an elsewhere. The old
// attempt may still end well, and then counts: its updates are applied, by whichever attempt.
//
// Closures that have rows in common go to one worker, where that leaves none idle (group_queue.h).
// Without groups closures start in the order of their ids.
//
// No closure starts so far behind the oldest that is not over that the ledgers of the PS, which
// keep what lies between, would grow without bound. Some may not even be as far behind as that
// (staleness_bound.h).
//
// Closures of a synchronous step are over together (sync_table.h). Those of the next step wait at
// the PS for those of the present one, so they must never be in its way: one of an earlier step
// finds room on a worker that has none but for such as wait, and they leave the worker that is kept
// for a trial.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/group_queue.h"
#include "coordinator/core/quarantine.h"
#include "coordinator/core/start_gate.h"
#include "coxswain/cluster.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

class Dispatcher {
 public:
  struct Assignment {
    ClosureId closure = 0;
    int worker = 0;
    uint32_t attempt = 0;  // from 1; never the same again for a closure, also when it runs again
    // Of one with a group: a closure of the group that the worker goes on with, or itself where
    // that is not known. Else 0.
    ClosureId ahead = 0;
  };

  // `in_flight`: how many closures a worker is kept deep, at least 1. `window`: closures from
  // low_water() + window on wait until the mark has moved; at least 1.
  explicit Dispatcher(int in_flight, const QuarantineOptions& quarantine = {},
                      ClosureId window = ClosureId{1} << 62)
      : in_flight_(in_flight), window_(window), quarantine_(quarantine) {}

  // Continues another session's numbering: every closure below `low_water` is over, and so are
  // those below `next` that are not in `pending` (ascending). Before anything was scheduled.
  void Restore(ClosureId low_water, ClosureId next, const std::vector<ClosureId>& pending);

  // Queues a new closure and returns its id; ids count up from 1. `group`: see group_queue.h; 0:
  // none.
  ClosureId Schedule(GroupQueue::Group group = 0);
  // Queues one of Restore's pending closures. False when it is none, or was queued before.
  bool ScheduleRestored(ClosureId closure, GroupQueue::Group group = 0);
  // Of Restore's pending closures, those that were not queued yet.
  int64_t restored_left() const { return static_cast<int64_t>(restored_.size()); }
  // The worker can take closures from now on.
  void AddWorker(int worker);

  // The worker is gone: its closures go to the head of the queue, oldest first; returns how many.
  // With `blame` they may be the reason.
  int RemoveWorker(int worker, bool blame, absl::Duration now);
  // A worker that was removed without blame is as good as lost by these after all. Those that are
  // over meanwhile are not to blame.
  void Blame(const std::vector<ClosureId>& closures, absl::Duration now);
  // What a worker says of an attempt. True: the closure is over (the caller resolves it): it was
  // the current attempt, or an overdue one that ended well. False: one that was given up; ignore
  // it.
  bool Complete(ClosureId closure, uint32_t attempt, bool ok);
  // Whether this is the attempt that counts now.
  bool IsCurrent(ClosureId closure, uint32_t attempt) const;
  // The current attempt failed for no fault of the closure: it goes back to the head of the queue.
  // False as above.
  bool Retry(ClosureId closure, uint32_t attempt);
  // The attempt that runs has taken too long: the closure runs again before all others, on another
  // worker if there is any that it was not overdue on.
  void Overdue(ClosureId closure);
  bool IsRunning(ClosureId closure) const { return running_.count(closure) > 0; }

  // When closures may start, but for their order. Forgets those that are over.
  StartGate& gate() { return gate_; }
  // As Complete of an attempt that went well, but the closure is not over before Conclude, as it
  // waits for the others of its step. Or it runs again.
  bool Settle(ClosureId closure, uint32_t attempt);
  void Conclude(ClosureId closure);
  void Unsettle(ClosureId closure);
  // It is over without a result, wherever it is now; its attempts count no more.
  void Drop(ClosureId closure);
  // How often it was overdue, so far.
  int overdue(ClosureId closure) const;
  // The closure that runs is given up: over and failed, the caller resolves it.
  void GiveUp(ClosureId closure);
  // Overdue attempts count no more, however they end: the shards have gone back.
  void ForgetOverdueAttempts() { overdue_attempts_.clear(); }

  using Filter = std::function<bool(ClosureId)>;
  // Drops the queued closures that `filter` wants, never those that run again; returns them. They
  // count as failed.
  std::vector<ClosureId> CancelQueued(const Filter& filter);
  // The same of one; false: it does not wait, or runs again.
  bool CancelQueued(ClosureId closure);
  // Where it runs, if it does.
  std::optional<int> WorkerOf(ClosureId closure) const;
  // (closure, worker) in flight, ascending.
  std::vector<std::pair<ClosureId, int>> Running() const;
  // Gives up all closures; returns them. Later completions are ignored.
  std::vector<ClosureId> CancelAll();

  struct Rerun {
    ClosureId closure = 0;
    ClosureId after = 0;  // not before every closure below this one is over
  };
  // Closures that were complete must run again, in this (ascending) order, before what is queued.
  // No worker may be there: all attempts have been given up. Many are passed in several calls, the
  // later ones first, with all between the lowest and the low-water mark in each: what is not named
  // stays over. Each call takes time for what lies between only.
  void RunAgain(const std::vector<Rerun>& closures);
  // Closures that wait in the queue start in order, each when all below its `after` are over.
  void SetAfter(ClosureId closure, ClosureId after) { gate_.SetAfter(closure, after); }
  // Whether it was over once and runs again, so that nobody waits for its result.
  bool runs_again(ClosureId closure) const { return again_.count(closure) > 0; }
  // All that run again are below; 0: none does.
  ClosureId runs_again_end() const { return again_.empty() ? 0 : *again_.rbegin() + 1; }

  // Takes from the queue what the workers have room for, the emptiest worker first.
  std::vector<Assignment> TakeAssignments(absl::Duration now);
  // Closures that are found to take down their workers: over and failed, the caller resolves them.
  std::vector<ClosureId> TakeQuarantined(absl::Duration now);
  // When the two above may have something, if nothing happens before; infinite: they will not.
  // Valid after a call of TakeAssignments.
  absl::Duration next_time() const { return next_time_; }

  // Every closure below this id is over.
  ClosureId low_water() const { return low_water_; }
  ClosureId next_id() const { return next_id_; }
  // Whether closures wait only because the oldest that is not over is so far behind.
  bool held_back() const { return held_back_ && !queue_.closures().empty(); }
  int64_t queued() const {
    return static_cast<int64_t>(queue_.closures().size() + late_.size() + aside_.size() +
                                gate_.settled().size());
  }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  bool idle() const { return queued() == 0 && running() == 0; }
  int workers() const { return static_cast<int>(workers_.size()); }
  int load(int worker) const;
  const DispatcherStats& stats() const { return stats_; }

 private:
  struct Attempt {
    int worker = 0;
    uint32_t attempt = 0;
  };
  // How often a closure was tried.
  struct History {
    uint32_t attempts = 0;  // those before it was over the last time included
    uint32_t before = 0;    // or more than that
  };
  // Of a closure that was overdue.
  struct Lateness {
    int times = 0;
    std::set<int> workers;  // where
  };

  // What the worker takes, when `oldest` is the first that waits and may start.
  ClosureId Pick(int worker, ClosureId oldest);
  void SetRoom(int worker);
  void Unassign(ClosureId closure, int worker);
  void Over(ClosureId closure);
  bool MayStart(ClosureId closure) const { return gate_.MayStart(closure, low_water_); }
  // Where a closure that was overdue may run now; -1: nowhere yet.
  int RoomElsewhere(ClosureId closure) const;
  // For one of a step: a worker that has no room but for closures of later steps, which wait.
  int RoomBeforeLaterSteps(ClosureId closure, const std::set<int>& but_not) const;
  // Where it runs, closures of later steps no longer do.
  void TakeLaterSteps(ClosureId closure, int worker);
  // A trial may take the place of everything else, so it is for the oldest step.
  bool MayBeTried(ClosureId closure) const;
  // It is neither queued nor running any more.
  void Withdraw(ClosureId closure);
  // Back to its place in the queue, or aside.
  void Requeue(ClosureId closure);
  void PutAside(ClosureId closure);
  // No worker is kept for it any more, if one was.
  void LeaveWorker(ClosureId closure);
  int WorkerKeptFor(ClosureId closure) const;  // -1: none
  void KeepWorkers(absl::Duration now);
  Assignment Assign(ClosureId closure, int worker);

  const int in_flight_;
  const ClosureId window_;
  Quarantine quarantine_;
  ClosureId next_id_ = 1;
  ClosureId low_water_ = 1;
  absl::btree_set<ClosureId> over_above_low_water_;
  absl::btree_set<ClosureId> restored_;  // pending ones of Restore that were not scheduled yet
  GroupQueue queue_;                     // they start in the order of their ids, but for groups
  absl::btree_set<ClosureId> late_;      // were overdue, and go first
  std::map<ClosureId, Lateness> lateness_;
  std::set<std::pair<ClosureId, uint32_t>> overdue_attempts_;  // they may still end well
  bool held_back_ = false;
  absl::flat_hash_map<ClosureId, History> history_;  // of closures that were tried before
  uint32_t highest_attempt_ = 0;                     // of all closures
  absl::flat_hash_map<ClosureId, Attempt> running_;
  StartGate gate_;
  absl::btree_set<ClosureId> again_;
  absl::flat_hash_map<int, std::set<ClosureId>> workers_;
  std::set<std::pair<int, int>> room_;  // (closures in flight, worker), for workers with room
  absl::btree_set<ClosureId> aside_;    // suspect ones that may start but for that
  std::map<int, ClosureId> kept_;       // by worker: the one that runs there alone, or will
  absl::Duration next_time_ = absl::InfiniteDuration();  // zero: look again
  DispatcherStats stats_;
};

}  // namespace coxswain::core
