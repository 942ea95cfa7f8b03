// A cluster that this program holds as its coordinator.
//
// Thread model: thread-safe. Destroying the last handle ends the session (daemons go back to
// waiting) and, for Local and InProcess, ends the tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace coxswain::cluster {
struct ClusterConfig;
}  // namespace coxswain::cluster

namespace coxswain::core {
class Controller;
}  // namespace coxswain::core

namespace coxswain::env {
class Env;
}  // namespace coxswain::env

namespace coxswain::graph {
class OpRegistry;
}  // namespace coxswain::graph

namespace coxswain {

class Catalog;
class ClusterState;

// What becomes of the others when a closure fails by its own fault: bad data, a failing op, or one
// that was given up because workers died of it. Lost tasks are nobody's fault: they are no errors,
// and a cluster that cannot go on ends everything under each policy.
enum class ErrorPolicy : uint8_t {
  kFailFast,  // the first error cancels what is queued and in flight
  kCollect,   // the others run; Join returns the first error, errors() all
  kIgnore,    // the others run; Join is OK, failed() counts. The closure's future has its error
};

// What becomes of the time since the checkpoint when a parameter server is lost.
enum class PsLossPolicy : uint8_t {
  kRollback,    // all shards go back together; the closures since then run again
  kReplay,      // only the lost shards go back; the closures since then run again, and the other
                // shards drop what they have
  kAcceptLoss,  // only the lost shards go back, and training goes on: their updates are lost
};

// How workers train together (docs/consistency.md).
enum class ConsistencyMode : uint8_t {
  kAsync,    // each batch's gradients are applied as they come
  kBounded,  // the same, but no batch begins that is too far ahead of the oldest one
  kSync,     // the gradients of several batches are one update, and updates follow one another
  kHybrid,   // the same, but updates are applied as they come, as with kAsync
};

// How a synchronous step makes one gradient of those of its batches.
enum class GradientReduction : uint8_t { kMean, kSum };

// The learning rate of a gradient that is late: its shard took updates since it was read.
enum class StalenessRate : uint8_t {
  kNone,     // as of all others
  kInverse,  // divided by its staleness, where that is more than 1
  kRoot,     // or by the root of it
};

struct Consistency {
  ConsistencyMode mode = ConsistencyMode::kAsync;
  // kBounded: how many steps the oldest one that is not applied may be behind one that begins, at
  // least 0. 0: one after another.
  int64_t max_staleness = 0;
  // kSync: batches of a step, 1 to kMostReplicas; a program decides how many it schedules together.
  int64_t replicas = 1;
  GradientReduction reduce = GradientReduction::kMean;
  // kSync: so many more batches are tried than a step takes. What it did without is to be scheduled
  // again: a RemoteValue of it says Cancelled, with cause kSurplus.
  int64_t backup = 0;
  // kHybrid: batches of an update.
  int64_t group_size = 1;
  // An update takes this many times as many batches: microbatches.
  int64_t accumulate = 1;
  // Of all variables and tables with an optimizer. Synchronous gradients are never late.
  StalenessRate staleness_rate = StalenessRate::kNone;
  // Of the same: late gradients become what they would be now, to the first order, with this factor
  // (DC-ASGD); 0: they stay as they are. Not for steps.
  double delay_compensation = 0;

  static constexpr int64_t kMostReplicas = 4096;

  // Of an update.
  int64_t batches() const {
    const int64_t replicated = mode == ConsistencyMode::kSync     ? replicas
                               : mode == ConsistencyMode::kHybrid ? group_size
                                                                  : 1;
    return replicated * accumulate;
  }
  // Whether updates are those of steps (ClusterCoordinator::ScheduleStep).
  bool in_steps() const {
    return mode == ConsistencyMode::kSync || mode == ConsistencyMode::kHybrid || accumulate > 1;
  }
};

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

struct ClusterOptions {
  int closures_in_flight = 3;  // per worker
  absl::Duration lease = absl::Seconds(2);
  absl::Duration connect_timeout = absl::Seconds(10);
  // How long to wait for the other workers once one is there.
  absl::Duration straggler_timeout = absl::Seconds(5);
  // Compute threads: of this process for InProcess, of each worker for Local; 0: as many as the
  // machine's cores allow.
  int threads = 0;
  // Local: where coxswain-worker and coxswain-ps are; empty: beside this program.
  std::string daemon_directory = {};
  // Local: how often in quick succession a daemon that ends is started again; every 30 s it may be
  // once more. When no parameter server or no worker is left, the job fails at once.
  int local_restarts = 10;
  // What happens when tasks are lost.
  RecoveryOptions recovery = {};
  // The session's epoch is at least this: a resumed job's is newer than the one before, also where
  // all daemons were restarted. See CheckpointManager::min_epoch.
  uint64_t min_epoch = 0;
  // Connect: the file with the secret of the daemons, which nobody else can read. Empty:
  // $COXSWAIN_SECRET_FILE, or the user's own, ~/.config/coxswain/secret. With `insecure` there is
  // none: for daemons that were started so.
  std::string secret_file = {};
  bool insecure = false;
  // Called on a thread of the runtime; must not block or call the cluster.
  std::function<void(const ClusterEvent&)> on_event = {};
};

// What the coordinator counts of closures, since the session began.
struct DispatcherStats {
  uint64_t scheduled = 0;
  uint64_t completed = 0;  // with a result
  uint64_t failed = 0;     // with an error, or cancelled
  uint64_t retried = 0;    // attempts beyond the first, for a closure that was not over
  uint64_t rerun = 0;      // closures that were complete and ran again, because a PS was lost
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

struct CheckpointStats {
  int64_t written = 0;
  int64_t failed = 0;
  int64_t bytes = 0;         // that were written
  double seconds = 0;        // from request to rename, summed
  double stall_seconds = 0;  // in which a PS could run no segment, summed (the slowest PS of each)
  int64_t shards_moved = 0;  // to other PS, for balance
  double move_seconds = 0;   // in which no closure was begun because of that, summed
};

// What the coordinator counts, since the session began.
struct ClusterStats {
  DispatcherStats closures;
  FailureStats failures;
  CheckpointStats checkpoints;
  int workers_ready = 0;
  int workers = 0;
  std::string waiting_for;  // empty: closures can run
};

class Cluster {
 public:
  // A cluster is never empty: what it was moved from is as good as before.
  Cluster(const Cluster&) = default;
  Cluster& operator=(const Cluster&) = default;

  // Daemons that run already, as runtime/cluster has read them from a file.
  // Errors: Unavailable with cause kUnreachable (who is missing) or kClusterHeld (who holds it);
  // with cause kConfiguration: no secret, or another one than the daemons have (Unauthenticated).
  static absl::StatusOr<Cluster> Connect(const cluster::ClusterConfig& config,
                                         const ClusterOptions& options = {});
  // Reads a cluster file first. Errors: also InvalidArgument with file, line and column.
  static absl::StatusOr<Cluster> Connect(const std::string& file,
                                         const ClusterOptions& options = {});
  // Everything in this process, over the in-process transport.
  static absl::StatusOr<Cluster> InProcess(int num_ps, int num_workers,
                                           const ClusterOptions& options = {});
  // Daemons as child processes on this machine's loopback; they end with the cluster (or with this
  // process, however that ends). One that ends by itself is started again: what it held comes back
  // as after any loss of a task, and an event tells.
  // Errors: also NotFound when the daemons' programs are not in daemon_directory; Unavailable,
  // DeadlineExceeded when one does not come up.
  static absl::StatusOr<Cluster> Local(int num_ps, int num_workers,
                                       const ClusterOptions& options = {});

  // Of a cluster of daemons, see ClusterIdentity; empty for one of this program's own.
  const std::string& identity() const;
  int num_ps() const;
  // As listed; which of them are there is in Stats.
  int num_workers() const;

  // The workers by position from now on, as in an edited cluster file. Those whose address changed
  // or that are new are connected and join in when they are there; those that are gone are let go,
  // and their closures run elsewhere. Returns at once. Parameter servers cannot be changed.
  // Errors: InvalidArgument for a list that is no cluster's.
  absl::Status UpdateWorkers(const std::vector<std::string>& addresses) const;

  ClusterStats Stats() const;
  // After a Join: waits until no PS is being recovered and nothing runs again because one was lost,
  // so that variables are what the closures that are over made of them. Every 30 s it logs what it
  // waits for. Errors: that of the job, which fails when nothing can run for
  // RecoveryOptions.cluster_timeout.
  absl::Status WaitUntilSettled() const;
  // A number that no other caller on this cluster has: who schedules closures, see
  // ClosureSpec::owner.
  uint64_t NewOwner() const;

  // Within Coxswain.
  core::Controller* controller() const;
  Catalog* catalog() const;
  env::Env* env() const;
  const graph::OpRegistry* registry() const;

 private:
  friend class WaitReporter;
  explicit Cluster(std::shared_ptr<ClusterState> state) : state_(std::move(state)) {}
  static absl::StatusOr<Cluster> Start(std::shared_ptr<ClusterState> state,
                                       const cluster::ClusterConfig& config,
                                       const ClusterOptions& options);
  std::shared_ptr<ClusterState> state_;
};

}  // namespace coxswain
