// A cluster that this program holds as its coordinator.
//
// Blocking calls, here and in the classes that use a cluster, wait for as long as tasks work on
// what they were asked for: restoring a large table may take an hour. Every 30 s they log what they
// wait for. A task whose process or connection is gone is noticed at once; one that falls silent,
// after its lease, or after five times that while it makes tables, data sets or values. Calls that
// read or write rows then wait until the rows are back, and ask again; a checkpoint fails; other
// calls go on without the task, which is set up when it comes back. What waits for tasks that are
// gone ends with the error of the job when that fails: Unavailable where nothing could run for
// RecoveryOptions::cluster_timeout.
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
#include "coxswain/optimizers.h"

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

// What happens to the other closures when a closure fails by its own fault: bad data, a failing op,
// or because it was given up after workers died of it. The loss of a task is not a closure's error.
// A cluster that cannot go on ends all closures under every policy.
enum class ErrorPolicy : uint8_t {
  kFailFast,  // the first error cancels closures that are queued or in flight
  kCollect,   // the others run; Join returns the first error, errors() all
  kIgnore,    // the others run; Join is OK, failed() counts; the closure's future has its error
};

// What happens to the closures since the last checkpoint when a parameter server is lost.
enum class PsLossPolicy : uint8_t {
  kRollback,    // all shards go back together; the closures since then run again
  kReplay,      // only the lost shards go back; the closures since then run again, and the other
                // shards drop what they have
  kAcceptLoss,  // only the lost shards go back, and training goes on: their updates are lost
};

// How workers train together (docs/consistency.md).
enum class ConsistencyMode : uint8_t {
  kAsync,    // each batch's gradients are applied when they arrive
  kBounded,  // the same, but no batch begins that is too far ahead of the oldest one
  kSync,     // the gradients of several batches are one update, and updates follow one another
  kHybrid,   // the same, but updates are applied as they come, as with kAsync
};

// How a synchronous step combines the gradients of its batches into one. kNone: it does not; each
// is an update of its own, one after the other in the order of the batches.
enum class GradientReduction : uint8_t { kMean, kSum, kNone };

struct Consistency {
  ConsistencyMode mode = ConsistencyMode::kAsync;
  // kBounded: by how many steps, at most, the oldest step that is not applied yet may be behind a
  // step that begins; at least 0. 0: steps run one at a time.
  int64_t max_staleness = 0;
  // kSync: batches of a step, 1 to kMostReplicas. A program decides by itself how many tickets it
  // passes to ScheduleStep.
  int64_t replicas = 1;
  GradientReduction reduce = GradientReduction::kMean;
  // kSync: so many more batches are tried than a step takes. What it did without is to be scheduled
  // again: a RemoteValue of it says Cancelled, with cause kSurplus.
  int64_t backup = 0;
  // kHybrid: batches of an update. Here and with `accumulate` functions that train are for
  // ScheduleStep alone.
  int64_t group_size = 1;
  // An update takes this many times as many batches: microbatches.
  int64_t accumulate = 1;
  // Of all variables and tables whose optimizer has none of its own (WithStalenessRate).
  // Synchronous gradients are never late.
  StalenessRate staleness_rate = StalenessRate::kNone;
  // Of all without WithDelayCompensation: late gradients become what they would be now, to the
  // first order, with this factor (DC-ASGD); 0: they stay as they are. Not for steps.
  double delay_compensation = 0;

  static constexpr int64_t kMostReplicas = 4096;

  // Of a step: what is held until it is all there.
  int64_t batches() const {
    const int64_t replicated = mode == ConsistencyMode::kSync     ? replicas
                               : mode == ConsistencyMode::kHybrid ? group_size
                                                                  : 1;
    return replicated * accumulate;
  }
  int64_t batches_per_update() const { return reduce == GradientReduction::kNone ? 1 : batches(); }
  // Whether updates are those of steps (ClusterCoordinator::ScheduleStep).
  bool in_steps() const {
    return mode == ConsistencyMode::kSync || mode == ConsistencyMode::kHybrid || accumulate > 1;
  }
};

struct RecoveryOptions {
  PsLossPolicy on_ps_loss = PsLossPolicy::kRollback;
  // How long to wait for a lost PS before its shards are spread over the others.
  absl::Duration ps_return_timeout = absl::Seconds(10);
  // How long closures wait when nothing can run them: no worker, or no PS to restore shards on.
  // Then the job fails.
  absl::Duration cluster_timeout = absl::Minutes(10);
  // A closure is given up after it ran on this number of workers that were lost, the last time
  // alone and while no other worker was lost. At least 2; 0: closures are never given up for this.
  int quarantine_after = 4;
  // A step of a closure that takes longer than this on a worker runs again on another one. Zero: at
  // least 5 minutes, and more if steps of the same function have taken long. The old attempt is
  // asked to end, and counts if it succeeds before the new one.
  absl::Duration closure_timeout = absl::ZeroDuration();
  // A closure is given up after this number of attempts that took too long, with DeadlineExceeded
  // of cause kQuarantined.
  int most_timeouts = 4;
  // By how many closures a closure that starts may be ahead of the oldest one that is not over: all
  // PS and the next checkpoint remember the closures in between.
  int64_t max_window = 1 << 18;
  // Closures kept to run again when there is no checkpoint yet; beyond it a lost PS ends the job.
  int64_t max_log_closures = 1 << 20;
  // The same bound in bytes, for the arguments of these closures, which stay in memory.
  int64_t max_log_bytes = int64_t{2} << 30;
};

// An event that a program may show to its user while the job runs.
struct ClusterEvent {
  enum class Kind : uint8_t {
    kWorkerLost,
    kWorkerJoined,
    kTaskEnded,  // a task that this program started; `message` says whether it is restarted
    kPsLost,
    kPsBack,            // with all that it had; else kRecovered follows
    kRecovered,         // after PS were lost; `message` says what was rolled back
    kCheckpoint,        // written
    kCheckpointFailed,  // training goes on
    kShardsMoved,       // for balance
    kQuarantined,
    kTimeout,  // a closure takes too long on `task`, and runs elsewhere
    // No closure can run, or a checkpoint takes long, or `task` is there and cannot be used;
    // `message` says what is waited for, or why.
    kWaiting,
  };
  Kind kind = Kind::kWaiting;
  std::string task;  // "/job:ps/task:1"; empty for an event of the whole cluster
  std::string message;
};

// Whatever starts a cluster refuses negative numbers and times, and zeros where none is said to be
// a choice, with InvalidArgument.
struct ClusterOptions {
  // What runs, such as a job's name: `coxswain status`, the daemons' logs and refused coordinators
  // show it beside this machine's name and the process's number. May be empty.
  std::string name = {};
  int closures_in_flight = 3;  // per worker
  absl::Duration lease = absl::Seconds(2);
  absl::Duration connect_timeout = absl::Seconds(10);
  // How long to wait for the other workers once one is there.
  absl::Duration straggler_timeout = absl::Seconds(5);
  // Compute threads: of this process for InProcess, of each worker for Local; 0: as many as the
  // machine's cores allow.
  int threads = 0;
  // Local: the directory of coxswain-worker and coxswain-ps; empty: this program's.
  std::string daemon_directory = {};
  // Local: how often in quick succession a daemon that ends is started again; every 30 s one more
  // restart is allowed. When no parameter server or no worker is left, the job fails at once.
  int local_restarts = 10;
  // What happens when tasks are lost.
  RecoveryOptions recovery = {};
  // Lower bound of the session's epoch: a resumed job has a newer epoch than its last session, even
  // if all daemons were restarted. See CheckpointManager::min_epoch.
  uint64_t min_epoch = 0;
  // Connect: the file with the daemons' secret, which only its owner may be able to read. Empty:
  // $COXSWAIN_SECRET_FILE, or the user's own, ~/.config/coxswain/secret. `insecure` uses no secret,
  // for daemons that were started with --insecure.
  std::string secret_file = {};
  bool insecure = false;
  // Connect: the directory of ca.crt, tls.crt and tls.key, with which connections are encrypted
  // where daemons have --tls-dir; empty: $COXSWAIN_TLS_DIR, or no TLS. And the DNS name that all
  // certificates of the cluster have; empty: $COXSWAIN_TLS_NAME, or "coxswain".
  std::string tls_directory = {};
  std::string tls_name = {};
  // Called for one event at a time, on a thread of the runtime or on one that is in a call of this
  // library. It must not block, call the cluster, drop its last handle, or take a lock that the
  // program holds while it calls the library.
  std::function<void(const ClusterEvent&)> on_event = {};
};

// Counts of closures since the session began.
struct DispatcherStats {
  uint64_t scheduled = 0;
  uint64_t completed = 0;  // with a result
  uint64_t failed = 0;     // with an error, or cancelled
  uint64_t retried = 0;    // attempts beyond the first, for a closure that was not over
  uint64_t rerun = 0;      // complete closures that ran again, because a PS was lost
};

struct FailureStats {
  int64_t workers_lost = 0;
  int64_t ps_lost = 0;
  int64_t recovered = 0;  // losses after which the cluster went on
  // One entry per recovery: for PS, the time from the loss until closures ran again; for a worker,
  // the time from the loss until it (or its replacement) was ready again.
  std::vector<double> recovery_seconds;
  int64_t closures_rerun = 0;  // complete ones that ran again after a PS was lost
  int64_t updates_lost = 0;    // by accept_loss: steps, summed over shards
  int64_t quarantined = 0;
  int64_t timeouts = 0;  // attempts that took too long, after which the closure ran again elsewhere
};

struct CheckpointStats {
  int64_t written = 0;
  int64_t failed = 0;
  int64_t bytes = 0;         // bytes written
  double seconds = 0;        // from request to rename, summed
  double stall_seconds = 0;  // time in which the slowest PS of each could run no segment, summed
  int64_t shards_moved = 0;  // to other PS, for balance
  double move_seconds = 0;   // time in which no closure was begun because of moves, summed
};

// Counts since the session began, and the state of the cluster.
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
  // A handle is never empty: a moved-from Cluster is a copy of the new one.
  Cluster(const Cluster&) = default;
  Cluster& operator=(const Cluster&) = default;

  // Connects to daemons that are already running; runtime/cluster reads the config from a file.
  // Errors: Unavailable with cause kUnreachable (naming the missing tasks) or kClusterHeld (naming
  // the holder); with cause kConfiguration when there is no secret, or one that differs from the
  // daemons' (Unauthenticated).
  static absl::StatusOr<Cluster> Connect(const cluster::ClusterConfig& config,
                                         const ClusterOptions& options = {});
  // Reads a cluster file first. Errors: also InvalidArgument with file, line and column.
  static absl::StatusOr<Cluster> Connect(const std::string& file,
                                         const ClusterOptions& options = {});
  // All tasks in this process, over the in-process transport.
  static absl::StatusOr<Cluster> InProcess(int num_ps, int num_workers,
                                           const ClusterOptions& options = {});
  // Daemons as child processes on this machine's loopback; they end with the cluster (or with this
  // process, however that ends). A daemon that ends by itself is started again: its state is
  // recovered as after any loss of a task, and an event reports it. Errors: also NotFound when the
  // daemons' programs are not in daemon_directory; Unavailable or DeadlineExceeded when a daemon
  // does not come up.
  static absl::StatusOr<Cluster> Local(int num_ps, int num_workers,
                                       const ClusterOptions& options = {});

  // For a cluster of daemons, see ClusterIdentity; empty for a cluster that this program started.
  const std::string& identity() const;
  int num_ps() const;
  // Workers in the list; Stats says how many of them are ready.
  int num_workers() const;

  // Replaces the list of workers; a worker's number is its position, as in an edited cluster file.
  // New workers, and workers whose address changed, are connected and join in when they answer;
  // workers that are no longer listed are released, and their closures run elsewhere. Returns at
  // once. The list of parameter servers cannot change. Errors: InvalidArgument for a list that no
  // cluster can have.
  absl::Status UpdateWorkers(const std::vector<std::string>& addresses) const;

  ClusterStats Stats() const;
  // After a Join: waits until no PS is being recovered and no closure runs again because a PS was
  // lost, so that variables have the updates of all closures that are over. Every 30 s it logs what
  // it waits for. Errors: that of the job, which fails when nothing can run for
  // RecoveryOptions.cluster_timeout.
  absl::Status WaitUntilSettled() const;
  // A number that no other caller on this cluster gets. It identifies who schedules closures, see
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
