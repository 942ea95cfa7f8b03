// What the coordinator knows of each worker beyond its session: set up or not, lost or not, and how
// its closures have ended of late. A pure state machine: events in, what follows from them out;
// time is passed in. Owned by the coordinator's loop.
//
// Away -> (SetUp) -> being set up -> (Ready) -> ready -> (Lost, WayLost, TooManyTimeouts, LetGo) ->
// away. Whatever takes a worker out ends the set-up that is under way: its answer comes too late.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

class WorkerTable {
 public:
  // Counts set-ups, of all workers.
  using SetUpId = uint64_t;

  int size() const { return static_cast<int>(workers_.size()); }
  bool Has(int worker) const { return worker < size(); }
  void Resize(int workers) { workers_.resize(static_cast<size_t>(workers)); }
  // Another worker has its place from now on, one that joins after the start.
  void Replace(int worker);

  // A set-up begins, or is to begin later; the one before counts no more.
  SetUpId SetUp(int worker) { return At(worker).setup = ++last_setup_; }
  bool IsCurrent(int worker, SetUpId setup) const {
    return Has(worker) && At(worker).setup == setup;
  }
  // The worker takes no closures from now on, and a set-up that is under way does not count.
  void LetGo(int worker);

  struct Arrival {
    std::optional<absl::Duration> away;  // of a worker that was lost: for how long
    bool joined = false;                 // it is new
    std::vector<ClosureId> broken;       // what its way to a PS may have been lost by
  };
  // It is set up, in the layout of this generation.
  Arrival Ready(int worker, Generation generation, absl::Duration now);
  bool ready(int worker) const { return At(worker).ready; }
  // Whether the next set-up is to come with new streams.
  bool new_streams(int worker) const { return At(worker).new_streams; }

  // It is gone. True when that is news.
  bool Lost(int worker, absl::Duration now);

  struct LostWay {
    int times = 0;        // one after the other
    bool say = false;     // each time twice as rare as the loss itself
    absl::Duration wait;  // before the next set-up
  };
  // It is there, and has lost its way to a PS while these closures ran.
  LostWay WayLost(int worker, const std::vector<ClosureId>& running, Generation generation);

  // How closures end. With a result; by an answer of the worker, be it an error; too late.
  void Completed(int worker) { At(worker).ways_lost = 0; }
  void Answered(int worker) { At(worker).timeouts = 0; }
  struct Rest {
    int timeouts = 0;  // one after the other
    absl::Duration time;
  };
  // One took too long. With one after the other the worker is to rest and to be set up anew; it is
  // not ready then. `longest`: of a rest.
  std::optional<Rest> TimedOut(int worker, absl::Duration longest);

 private:
  struct Worker {
    bool ready = false;
    bool is_new = false;
    SetUpId setup = 0;
    std::optional<absl::Duration> lost_since;
    int ways_lost = 0;  // without a closure that was completed in between
    std::vector<ClosureId> broken;
    Generation broken_generation = 0;
    int timeouts = 0;
    bool new_streams = false;
  };
  Worker& At(int worker) { return workers_[static_cast<size_t>(worker)]; }
  const Worker& At(int worker) const { return workers_[static_cast<size_t>(worker)]; }

  std::vector<Worker> workers_;
  SetUpId last_setup_ = 0;
};

}  // namespace coxswain::core
