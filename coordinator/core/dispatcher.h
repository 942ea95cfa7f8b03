// Which closure runs where: the coordinator's scheduling as a pure state machine. Events in,
// actions out; no thread, clock, socket or callback of its own. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "runtime/base/ids.h"

namespace coxswain {

struct DispatcherStats {
  uint64_t scheduled = 0;
  uint64_t completed = 0;  // with a result
  uint64_t failed = 0;     // with an error, or cancelled
  uint64_t retried = 0;    // attempts beyond the first
};

class Dispatcher {
 public:
  struct Assignment {
    ClosureId closure = 0;
    int worker = 0;
    uint32_t attempt = 0;  // from 1
  };

  // `in_flight`: how many closures a worker is kept deep, at least 1.
  explicit Dispatcher(int in_flight) : in_flight_(in_flight) {}

  // Queues a new closure and returns its id; ids count up from 1.
  ClosureId Schedule();
  // The worker can take closures from now on.
  void AddWorker(int worker);
  // The worker is gone: its closures go to the head of the queue, oldest first. Returns how many.
  int RemoveWorker(int worker);
  // What a worker says of an attempt. True: it was the current attempt and the closure is over (the
  // caller resolves it). False: an attempt that was given up; ignore it.
  bool Complete(ClosureId closure, uint32_t attempt, bool ok);
  // The current attempt failed for no fault of the closure: it goes back to the head of the queue.
  // False as above.
  bool Retry(ClosureId closure, uint32_t attempt);
  // Drops the closures that are queued, not in flight; returns them. They count as failed.
  std::vector<ClosureId> CancelQueued();
  // Gives up all closures; returns them. Later completions are ignored.
  std::vector<ClosureId> CancelAll();

  // Takes from the queue what the workers have room for, the emptiest worker first.
  std::vector<Assignment> TakeAssignments();

  // Every closure below this id is over.
  ClosureId low_water() const { return low_water_; }
  int64_t queued() const { return static_cast<int64_t>(queue_.size()); }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  bool idle() const { return queue_.empty() && running_.empty(); }
  int workers() const { return static_cast<int>(workers_.size()); }
  int load(int worker) const;
  const DispatcherStats& stats() const { return stats_; }

 private:
  struct Running {
    int worker = 0;
    uint32_t attempt = 0;
  };

  void Unassign(ClosureId closure, int worker);
  void Over(ClosureId closure);

  const int in_flight_;
  ClosureId next_id_ = 1;
  ClosureId low_water_ = 1;
  std::set<ClosureId> over_above_low_water_;
  std::deque<ClosureId> queue_;
  absl::flat_hash_map<ClosureId, uint32_t> attempts_;  // of closures that were tried before
  absl::flat_hash_map<ClosureId, Running> running_;
  absl::flat_hash_map<int, absl::flat_hash_set<ClosureId>> workers_;
  std::set<std::pair<int, int>> room_;  // (closures in flight, worker), for workers with room
  DispatcherStats stats_;
};

}  // namespace coxswain
