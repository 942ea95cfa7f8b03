// Runs a job while faults are done to its cluster and to the job's own process: daemons come back
// after their delay, the coordinator goes on from its newest checkpoint.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/chaos/chaos_cluster.h"
#include "coordinator/chaos/chaos_spec.h"
#include "coordinator/chaos/progress_probe.h"
#include "coordinator/chaos/schedule.h"

namespace coxswain::chaos {

struct SupervisorOptions {
  ChaosSpec spec;
  // The command that runs the job; `resume`: from the newest checkpoint.
  std::function<std::vector<std::string>(bool resume)> command;
  std::string checkpoint_directory;
  bool resume = false;  // also the first time
  // A line for people about each thing that happens.
  std::function<void(const std::string&)> say;
  // Ends the job once it is true; may be null. Outlives the supervisor.
  const std::atomic<bool>* interrupted = nullptr;
};

// By kind of task and by what was done.
using FaultCounts = std::array<std::array<int64_t, kFaultActions>, kTaskKinds>;

struct SupervisorResult {
  int code = 0;  // of the job's last process
  FaultCounts injected = {};
  int64_t coordinator_starts = 0;
  // From the end of a coordinator until another one took training steps, in seconds.
  std::vector<double> coordinator_recovery;
  // Processes that ended though nothing was done to them, and why the job was given up.
  std::vector<std::string> troubles;
  bool interrupted = false;
};

// Thread model: one thread, which must live as long as the object: its children end with it.
class Supervisor {
 public:
  // `cluster` must outlive the supervisor; its daemons run.
  Supervisor(ChaosCluster* cluster, SupervisorOptions options);

  // Returns when the job is over; nothing that was started for it, but the cluster, runs then.
  SupervisorResult Run();

 private:
  // What goes on with one process.
  struct Slot {
    TaskKind kind = TaskKind::kWorker;
    int index = 0;
    std::string name;
    ManagedTask* task = nullptr;  // null: the coordinator
    bool up = true;
    bool expected = false;  // its end
    absl::Duration restart_delay;
    absl::Time restart_at = absl::InfiniteFuture();
    absl::Time continue_at = absl::InfiniteFuture();  // it is stopped until then
    absl::Time kill_at = absl::InfiniteFuture();      // it was asked to end, and has until then
    int failed_starts = 0;
  };

  bool Running(Slot* slot);
  void Signal(Slot* slot, int number);
  void Tick(Slot* slot);
  void OnEnd(Slot* slot);
  void OnCoordinatorEnd(Slot* slot, int code);
  void Start(Slot* slot);
  // False: its target is away or stands still; the fault waits until it is back.
  bool Inject(const PlannedFault& fault);
  void InjectDue();
  void WatchProgress();
  void EndCoordinator();
  void Trouble(const std::string& what);
  void Say(const std::string& what);
  std::string NewestCheckpoint() const;
  Slot& Find(TaskKind kind, int index);

  ChaosCluster* cluster_;
  SupervisorOptions options_;
  FaultStream faults_;
  std::vector<PlannedFault> due_;  // their time has come
  std::optional<PlannedFault> next_;
  std::vector<PlannedFault> at_updates_;  // those to come
  std::vector<Slot> slots_;               // the coordinator first
  local::Child coordinator_;
  std::unique_ptr<ProgressProbe> probe_;
  absl::Time started_, last_progress_;
  std::optional<absl::Time> first_step_;
  // Of a coordinator that ended: when, and the session it had.
  std::optional<absl::Time> lost_at_;
  std::string lost_holder_;
  std::string newest_checkpoint_;  // when a coordinator ended the last time
  int starts_without_checkpoint_ = 0;
  bool over_ = false;
  SupervisorResult result_;
};

}  // namespace coxswain::chaos
