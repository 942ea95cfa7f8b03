// Decides which closure runs where: the coordinator's scheduling as a pure state machine. Events go
// in and assignments come out; it has no thread, clock, socket or callback, and time is passed in.
// Owned by the coordinator's loop.
//
// A closure that may have killed its workers (quarantine.h) is set aside until it may run on trial:
// on a worker that is kept for it, with no other closure. The others go on meanwhile.
//
// A closure whose attempt took too long runs again on another worker, if there is one. The old
// attempt may still end well, and then counts: the closure's updates are applied, by whichever
// attempt.
//
// Closures that share rows go to one worker, unless that leaves another worker idle
// (group_queue.h). Without groups, closures start in the order of their ids.
//
// No closure starts so far after the oldest one that is not over that the ledgers of the PS, which
// record all closures in between, would grow without bound. With bounded staleness the limit is
// tighter (staleness_bound.h).
//
// Closures of a synchronous step are over together (sync_table.h). Those of the next step wait at
// the PS for those of the current step, so they must never block it: a closure of an earlier step
// may go to a worker that is full if closures of later steps wait there, and these are taken from a
// worker that is kept for a trial.
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
    uint32_t attempt = 0;  // from 1; unique for the closure, even when it runs again
    // For a closure with a group: a closure of the group that the worker will go on with, or the
    // closure itself if that is not known. Else 0.
    ClosureId ahead = 0;
  };

  // `in_flight`: the number of closures in flight per worker, at least 1. `window`: closures from
  // low_water() + window on wait until the mark has moved; at least 1.
  explicit Dispatcher(int in_flight, const QuarantineOptions& quarantine = {},
                      ClosureId window = ClosureId{1} << 62)
      : in_flight_(in_flight), window_(window), quarantine_(quarantine) {}

  // Continues another session's numbering: every closure below `low_water` is over, and so are
  // those below `next` that are not in `pending` (ascending). To be called before any closure is
  // scheduled.
  void Restore(ClosureId low_water, ClosureId next, const std::vector<ClosureId>& pending);

  // Queues a new closure and returns its id; ids count up from 1. `group`: see group_queue.h; 0:
  // none.
  ClosureId Schedule(GroupQueue::Group group = 0);
  // Queues one of Restore's pending closures. False when it is not one of them, or was queued
  // before. One of a synchronous step starts when all of the step's are queued.
  bool ScheduleRestored(ClosureId closure, GroupQueue::Group group = 0);
  // Undoes gate().StopStepsAt.
  void ResumeSteps();
  // Whether some of these closures are still to be queued by ScheduleRestored.
  bool AwaitsRestored(ClosureId first, ClosureId end) const;
  // Number of Restore's pending closures that were not queued yet.
  int64_t restored_left() const { return static_cast<int64_t>(restored_.size()); }
  // The worker can take closures from now on.
  void AddWorker(int worker);

  // The worker is gone: its closures go to the head of the queue, oldest first; returns how many.
  // With `blame`, they are suspected of having killed it.
  int RemoveWorker(int worker, bool blame, absl::Duration now);
  // These closures may after all have caused the loss of a worker that was removed without blame.
  // Closures that are over meanwhile are not suspected.
  void Blame(const std::vector<ClosureId>& closures, absl::Duration now);
  // A worker reports the end of an attempt. True: the closure is over and the caller resolves it,
  // because this was the current attempt, or an overdue one that ended well. False: the attempt was
  // given up; ignore it.
  bool Complete(ClosureId closure, uint32_t attempt, bool ok);
  // Whether this is the attempt that counts now.
  bool IsCurrent(ClosureId closure, uint32_t attempt) const;
  // The current attempt failed through no fault of the closure, which goes back to the head of the
  // queue. Returns false as above.
  bool Retry(ClosureId closure, uint32_t attempt);
  // The running attempt takes too long: the closure runs again before all others, on a worker where
  // it was not overdue if there is one.
  void Overdue(ClosureId closure);
  bool IsRunning(ClosureId closure) const { return running_.count(closure) > 0; }

  // Conditions for closures to start, apart from their order. The gate forgets closures that are
  // over.
  StartGate& gate() { return gate_; }
  // Like Complete of a successful attempt, but the closure is not over until Conclude, because it
  // waits for the others of its step; or until then it may run again.
  bool Settle(ClosureId closure, uint32_t attempt);
  void Conclude(ClosureId closure);
  void Unsettle(ClosureId closure);
  // It is over without a result, wherever it is now; its attempts count no more.
  void Drop(ClosureId closure);
  // How often it was overdue, so far.
  int overdue(ClosureId closure) const;
  // Gives up a running closure: it is over and failed, and the caller resolves it.
  void GiveUp(ClosureId closure);
  // Overdue attempts no longer count, however they end, because the shards have gone back.
  void ForgetOverdueAttempts() { overdue_attempts_.clear(); }

  using Filter = std::function<bool(ClosureId)>;
  // Drops the queued closures that `filter` selects, except those that run again; returns them.
  // They count as failed.
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
    ClosureId after = 0;  // it must wait until every closure below this one is over
  };
  // Queues complete closures to run again, in this (ascending) order, before those already queued.
  // There must be no workers: all attempts have been given up. Long lists are passed in several
  // calls, the later closures first; each call covers all closures between its lowest and the
  // low-water mark, and those that it does not name stay over. A call takes time only for the
  // closures in that range.
  void RunAgain(const std::vector<Rerun>& closures);
  // A queued closure starts only when all closures below `after` are over.
  void SetAfter(ClosureId closure, ClosureId after) { gate_.SetAfter(closure, after); }
  // Whether the closure was over once and runs again, so that nobody waits for its result.
  bool runs_again(ClosureId closure) const { return again_.count(closure) > 0; }
  // All closures that run again are below this id; 0: there are none.
  ClosureId runs_again_end() const { return again_.empty() ? 0 : *again_.rbegin() + 1; }

  // Takes closures from the queue as far as workers have room, the emptiest worker first.
  std::vector<Assignment> TakeAssignments(absl::Duration now);
  // Closures that are found to kill their workers: they are over and failed, and the caller
  // resolves them.
  std::vector<ClosureId> TakeQuarantined(absl::Duration now);
  // When the two methods above may have results if nothing happens before; infinite: never. Valid
  // after a call of TakeAssignments.
  absl::Duration next_time() const { return next_time_; }

  // Every closure below this id is over.
  ClosureId low_water() const { return low_water_; }
  ClosureId next_id() const { return next_id_; }
  // Whether closures wait only because the oldest one that is not over is too far behind.
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
  // Counts of a closure's attempts.
  struct History {
    uint32_t attempts = 0;  // including those before it was over the last time
    uint32_t before = 0;    // those attempts, or a larger number
  };
  // State of a closure that was overdue.
  struct Lateness {
    int times = 0;
    std::set<int> workers;  // where
  };

  // The closure that the worker takes, when `oldest` is the first queued one that may start.
  ClosureId Pick(int worker, ClosureId oldest);
  void SetRoom(int worker);
  void Unassign(ClosureId closure, int worker);
  void Over(ClosureId closure);
  bool MayStart(ClosureId closure) const {
    return gate_.MayStart(closure, low_water_) && !StepAwaitsRestored(closure);
  }
  // A step with backups would otherwise be over without those of its closures that are still to be
  // queued, and they would wait for it for ever.
  bool StepAwaitsRestored(ClosureId closure) const;
  // Some that were set aside may be tried now.
  void LookAgain() {
    if (!aside_.empty()) next_time_ = absl::ZeroDuration();
  }
  void LeaveWorkersOfThoseThatWait();
  // The worker on which an overdue closure may run now; -1: none yet.
  int RoomElsewhere(ClosureId closure) const;
  // For a closure of a step: a full worker on which closures of later steps wait.
  int RoomBeforeLaterSteps(ClosureId closure, const std::set<int>& but_not) const;
  // Takes closures of later steps from the worker on which the closure runs.
  void TakeLaterSteps(ClosureId closure, int worker);
  // A trial may take the place of all other closures, so only closures of the oldest step may have
  // one.
  bool MayBeTried(ClosureId closure) const;
  // Removes the closure: it is neither queued nor running any more.
  void Withdraw(ClosureId closure);
  // Puts the closure back into the queue, or aside.
  void Requeue(ClosureId closure);
  void PutAside(ClosureId closure);
  // Releases the worker that is kept for the closure, if there is one.
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
  GroupQueue queue_;                     // started in the order of their ids, except for groups
  absl::btree_set<ClosureId> late_;      // overdue closures, which go first
  std::map<ClosureId, Lateness> lateness_;
  std::set<std::pair<ClosureId, uint32_t>> overdue_attempts_;  // overdue attempts that may still
                                                               // end well
  bool held_back_ = false;
  absl::flat_hash_map<ClosureId, History> history_;  // closures that were tried before
  uint32_t highest_attempt_ = 0;                     // of all closures
  absl::flat_hash_map<ClosureId, Attempt> running_;
  StartGate gate_;
  absl::btree_set<ClosureId> again_;
  absl::flat_hash_map<int, std::set<ClosureId>> workers_;
  std::set<std::pair<int, int>> room_;  // (closures in flight, worker), for workers with room
  absl::btree_set<ClosureId> aside_;    // suspects that could otherwise start
  std::map<int, ClosureId> kept_;       // by worker: the closure that runs there alone, or will
  absl::Duration next_time_ = absl::InfiniteDuration();  // zero: look again
  DispatcherStats stats_;
};

}  // namespace coxswain::core
