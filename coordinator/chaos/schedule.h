// The faults of a CHAOS.yaml in the order in which they happen. A pure function of the file, its
// seed and the size of the cluster: nothing that happens meanwhile changes it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/chaos/chaos_spec.h"

namespace coxswain::chaos {

struct PlannedFault {
  absl::Duration at;      // since the job's first training step
  int64_t at_update = 0;  // or, if not 0: of updates that a shard has taken
  int rule = 0;           // index in ChaosSpec::faults
  int64_t number = 0;     // of this rule, from 0
  TaskKind task = TaskKind::kWorker;
  int index = 0;  // of the task; 0 for the coordinator
  FaultAction action = FaultAction::kKill;
  absl::Duration restart_delay;
  absl::Duration stop_for;
};

// Thread model: a value of one thread.
class FaultStream {
 public:
  // `num_ps` and `num_workers` are at least 1.
  FaultStream(const ChaosSpec& spec, int num_ps, int num_workers);

  // The next fault that comes at a time, by ascending time; nothing when no more come.
  std::optional<PlannedFault> Next();
  // All that come at a number of updates, by ascending number.
  std::vector<PlannedFault> AtUpdates() const;

 private:
  PlannedFault Plan(size_t rule, int64_t number) const;
  // The rule's faults are made one at a time, each from (seed, rule, number) alone.
  std::optional<PlannedFault> Make(size_t rule, int64_t number) const;

  ChaosSpec spec_;
  int num_ps_, num_workers_;
  std::vector<std::optional<PlannedFault>> next_;  // by rule
};

// All faults at a time before `until`.
std::vector<PlannedFault> MakeSchedule(const ChaosSpec& spec, int num_ps, int num_workers,
                                       absl::Duration until);

}  // namespace coxswain::chaos
