// What the coordinator does about failures, and what it tells of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/placement.h"
#include "coordinator/core/policies.h"

namespace coxswain {

class FileLock;

struct RecoveryOptions {
  PsLossPolicy on_ps_loss = PsLossPolicy::kRollback;
  // How long a lost PS is waited for before its shards are spread over the others.
  absl::Duration ps_return_timeout = absl::Seconds(10);
  // How long closures wait when nothing can run them: no worker, or no PS to restore shards on.
  // Then the job fails.
  absl::Duration cluster_timeout = absl::Minutes(10);
  // A closure is given up after it ran on this number of workers that were lost, the last time
  // alone and while no other worker was lost. At least 2; 0: none ever is.
  int quarantine_after = 4;
  // A step of a closure that takes longer than this on a worker runs again on another one; zero: at
  // least 5 minutes, more where steps of the same function have taken long. The old attempt is
  // asked to end and counts if it ends well before.
  absl::Duration closure_timeout = absl::ZeroDuration();
  // A closure is given up after this number of attempts that took too long, with DeadlineExceeded
  // of cause kQuarantined.
  int most_timeouts = 4;
  // How far a closure that starts may be behind the oldest one that is not over, in closures: all
  // PS and the next checkpoint remember what is between the two.
  int64_t max_window = 1 << 18;
  // Closures kept to run again when there is no checkpoint yet; beyond it a lost PS ends the job.
  int64_t max_log_closures = 1 << 20;
  // The same of their arguments, which the coordinator keeps in memory.
  int64_t max_log_bytes = int64_t{2} << 30;
};

struct CheckpointOptions {
  std::string directory;                     // reachable by the coordinator and all PS
  std::string job;                           // its name, for people
  std::shared_ptr<FileLock> lock;            // on the directory; null: none
  absl::Duration every = absl::Seconds(60);  // zero: not by time
  int64_t every_steps = 0;                   // 0: not by steps
  int keep = 3;
  // Of a table only the rows are written that were touched since an older checkpoint, to which the
  // rest is linked; until that would be more files or a larger share of the whole than this. 0
  // files: all is written every time.
  int max_deltas = 8;
  double max_delta_share = 0.5;
  // Whether shards move to other PS when these are used unevenly, or one of them holds nothing.
  // They do so at checkpoints that come by time or by steps: nothing runs while that one is written
  // and the shards that move are read from it.
  bool rebalance = true;
  BalanceRules balance;
  // For tests: called in place of ChooseMoves.
  std::function<std::map<ShardId, int>(const std::set<int>& there,
                                       const std::vector<PlacedShard>& shards)>
      choose_moves;
};

struct CheckpointStats {
  int64_t written = 0;
  int64_t failed = 0;
  int64_t bytes = 0;         // that were written
  double seconds = 0;        // from request to rename, summed
  double stall_seconds = 0;  // in which a PS could run no segment, summed (the slowest PS of each)
  int64_t shards_moved = 0;  // to other PS, for balance
  double move_seconds = 0;   // in which no closure was begun because of that, summed
};

struct FailureStats {
  int64_t workers_lost = 0;
  int64_t ps_lost = 0;
  int64_t recovered = 0;  // losses after which the cluster went on
  // From the loss of a task until closures ran again: of a PS until dispatch resumed, of a worker
  // until it (or its replacement) was ready again.
  std::vector<double> recovery_seconds;
  int64_t closures_rerun = 0;  // complete ones that ran again after a PS was lost
  int64_t updates_lost = 0;    // by accept_loss: steps, summed over shards
  int64_t quarantined = 0;
  int64_t timeouts = 0;  // attempts of closures that took too long, and ran again elsewhere
};

// Something that people want to know about while the job runs.
struct ClusterEvent {
  enum class Kind : uint8_t {
    kWorkerLost,
    kWorkerJoined,
    kTaskEnded,  // of those that this program started; `message` tells whether it comes back
    kPsLost,
    kRecovered,         // after PS were lost; `message` tells what was rolled back
    kCheckpoint,        // written
    kCheckpointFailed,  // training goes on
    kShardsMoved,       // for balance
    kQuarantined,
    kTimeout,  // a closure takes too long on `task`, and runs elsewhere
    kWaiting,  // nothing can run now, or a checkpoint takes long; `message` says what is waited for
  };
  Kind kind = Kind::kWaiting;
  std::string task;  // "/job:ps/task:1"; empty when it is about the cluster
  std::string message;
};

}  // namespace coxswain
