// A cluster that this program holds as its coordinator.
//
// Thread model: thread-safe. Destroying the last handle ends the session (daemons go back to
// waiting) and, for Local and InProcess, ends the tasks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/recovery_types.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain {

class Catalog;
class Controller;
class Env;
class ClusterState;
class OpRegistry;

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
  Epoch min_epoch = 0;
  // Connect: the file with the secret of the daemons, which nobody else can read. Empty:
  // $COXSWAIN_SECRET_FILE, or the user's own, ~/.config/coxswain/secret. With `insecure` there is
  // none: for daemons that were started so.
  std::string secret_file = {};
  bool insecure = false;
  // Called on a thread of the runtime; must not block or call the cluster.
  std::function<void(const ClusterEvent&)> on_event = {};
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

  // Daemons that run already.
  // Errors: Unavailable with cause kUnreachable (who is missing) or kClusterHeld (who holds it);
  // with cause kConfiguration: no secret, or another one than the daemons have (Unauthenticated).
  static absl::StatusOr<Cluster> Connect(const ClusterConfig& config,
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
  // What every task that answers says of itself.
  std::vector<proto::TaskStatus> Status() const;

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

  Controller* controller() const;
  Catalog* catalog() const;
  Env* env() const;
  const OpRegistry* registry() const;

 private:
  friend class WaitReporter;
  explicit Cluster(std::shared_ptr<ClusterState> state) : state_(std::move(state)) {}
  static absl::StatusOr<Cluster> Start(std::shared_ptr<ClusterState> state,
                                       const ClusterConfig& config, const ClusterOptions& options);
  std::shared_ptr<ClusterState> state_;
};

}  // namespace coxswain
