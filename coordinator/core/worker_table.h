// The coordinator's state of each worker beyond its session: whether it is set up or lost, and how
// its closures ended recently. A pure state machine: events go in, decisions come out; time is
// passed in. Owned by the coordinator's loop.
//
// Away -> (SetUp) -> being set up -> (Ready) -> ready -> (Lost, WayLost, TooManyTimeouts, LetGo) ->
// away. Every event that takes a worker out also ends its set-up: the answer to it is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

class WorkerTable {
 public:
  // Counts the set-ups of all workers.
  using SetUpId = uint64_t;

  int size() const { return static_cast<int>(workers_.size()); }
  bool Has(int worker) const { return worker < size(); }
  void Resize(int workers) { workers_.resize(static_cast<size_t>(workers)); }
  // Another worker has this number from now on, which joins after the start.
  void Replace(int worker);

  // A set-up begins, or will begin later; earlier ones no longer count.
  SetUpId SetUp(int worker) { return At(worker).setup = ++last_setup_; }
  bool IsCurrent(int worker, SetUpId setup) const {
    return Has(worker) && At(worker).setup == setup;
  }
  // The worker takes no closures from now on, and a set-up under way no longer counts.
  void LetGo(int worker);

  struct Arrival {
    std::optional<absl::Duration> away;  // for a worker that was lost: for how long
    bool joined = false;                 // whether it is new
    std::vector<ClosureId> broken;       // closures that may have broken its connection to a PS
  };
  // The worker is set up for this generation of the layout.
  Arrival Ready(int worker, Generation generation, absl::Duration now);
  bool ready(int worker) const { return At(worker).ready; }
  // Whether the next set-up must open new streams.
  bool new_streams(int worker) const { return At(worker).new_streams; }

  // The worker is lost. False when that was known.
  bool Lost(int worker, absl::Duration now);

  struct LostWay {
    int times = 0;        // one after the other
    bool say = false;     // reported after 1, 2, 4, ... losses
    absl::Duration wait;  // before the next set-up
  };
  // The worker is up, but has lost its connection to a PS while these closures ran.
  LostWay WayLost(int worker, const std::vector<ClosureId>& running, Generation generation);

  // How closures end: with a result; with an answer of the worker, even an error; too late.
  void Completed(int worker) { At(worker).ways_lost = 0; }
  void Answered(int worker) { At(worker).timeouts = 0; }
  struct Rest {
    int timeouts = 0;  // one after the other
    absl::Duration time;
  };
  // A closure took too long. After several in a row the worker must rest and be set up again; it is
  // then not ready. `longest`: the longest rest.
  std::optional<Rest> TimedOut(int worker, absl::Duration longest);

 private:
  struct Worker {
    bool ready = false;
    bool is_new = false;
    SetUpId setup = 0;
    std::optional<absl::Duration> lost_since;
    int ways_lost = 0;  // without a completed closure in between
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
