// What a lost task costs a job: rates and times around the kill and the restart of a worker and of
// a parameter server, on processes of this benchmark's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/step/shape.h"

namespace coxswain {

struct RecoveryBench {
  StepShape shape;
  int ps = 2;
  int workers = 3;
  int in_flight = 2;  // closures that a worker is kept deep
  int threads = 0;    // compute threads of each worker; 0: by cores
  // Seconds of steady training before the worker is killed, until it is started again, and after
  // that.
  double before = 4;
  double down = 3;
  double after = 5;
  std::string checkpoints;  // an existing directory; what is written there is removed
};

// Times are seconds. All rates are steps a second.
struct RecoveryFigures {
  // The worker. "Survivors" are all others.
  double rate_before = 0, rate_down = 0, rate_after = 0;  // of the cluster
  double survivors_before = 0, survivors_down = 0, survivors_after = 0;
  double pause_before = 0, pause_at_kill = 0;  // longest time without a completion, in a second
  double kill_to_detected = 0;
  // Until the first of the killed worker's closures was surely complete elsewhere, and the last.
  double kill_to_elsewhere = 0, kill_to_all_elsewhere = 0;
  double restart_to_ready = 0;
  double restart_to_first = 0;          // closure completed by the replacement
  std::optional<double> restart_to_90;  // until a window of kBin had 90% of the rate before
  std::vector<int64_t> bins;            // completions by kBin since the steady time began
  double killed_at = 0, restarted_at = 0;
  int64_t bins_before_median = 0;
  std::vector<int64_t> bins_down;

  // The parameter server, killed just after a checkpoint and some steps, and started at once.
  double ps_kill_to_detected = 0;
  double ps_kill_to_dispatch = 0;  // until closures ran again, from the checkpoint
  double ps_kill_to_new = 0;       // until a closure completed that had not before
  int64_t closures_rerun = 0;
  double checkpoint_seconds = 0, checkpoint_stall_ms = 0;
  int64_t checkpoint_bytes = 0;

  int64_t scheduled = 0;
  int64_t applied = 0;  // of the shard that is farthest from `scheduled`
  int64_t retried = 0;

  static constexpr double kBin = 0.25;
};

// Errors: what the cluster, a closure or a daemon says; DeadlineExceeded when something that must
// happen does not.
absl::StatusOr<RecoveryFigures> MeasureRecovery(const RecoveryBench& bench);

}  // namespace coxswain
