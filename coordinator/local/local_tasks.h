// Tasks that a coordinator starts itself: in its own process, or as child processes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/local/restart_budget.h"
#include "runtime/base/ids.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/env/env.h"
#include "runtime/graph/op.h"
#include "runtime/net/secret.h"
#include "runtime/net/transport.h"

namespace coxswain::local {

// Events of watched tasks. Called on a separate thread; must neither block nor call the tasks.
struct LocalTaskEvents {
  // The process that has this address from now on; it may not have started yet.
  std::function<void(const std::string& address, Incarnation incarnation)> on_incarnation;
  // "/job:worker/task:1" has ended: how, and whether it is started again.
  std::function<void(const std::string& task, const std::string& message)> on_ended;
  // All parameter servers or all workers have ended, and none will be started again.
  std::function<void(absl::Status)> on_hopeless;
};

class LocalTasks {
 public:
  virtual ~LocalTasks() = default;  // ends the tasks
  virtual const cluster::ClusterConfig& config() const = 0;
  // The process at each address. Any process may be at an address that is not listed.
  virtual std::map<std::string, Incarnation> incarnations() const { return {}; }
  // From now on tasks that end, or have ended, are restarted.
  virtual void Watch(LocalTaskEvents events) { (void)events; }
  // No task is restarted any more, and no event is called after this has returned.
  virtual void StopWatching() {}
};

// The number of tasks to start on this machine.
struct LocalSize {
  int ps = 1, workers = 1;
};
// "2x3": 2 parameter servers and 3 workers. Errors: InvalidArgument with cause kConfiguration.
absl::StatusOr<LocalSize> ParseLocalSize(const std::string& text);

// The directory of this program, which also has the daemons' programs.
absl::StatusOr<std::string> ProgramDirectory();

// Compute threads of each of `num_workers` workers, such that they share this machine's cores.
int ThreadsPerWorker(int num_workers);
// Threads of each of `num_ps` parameter servers beside them: half of the cores, for while they
// work the workers mostly wait.
int ThreadsPerPs(int num_ps);

// Whether the directory that $COXSWAIN_TABLE_DIR names, if any, can have rows of tables: the tasks
// would find it, too, but only end, each with an error of its own. Errors: with cause
// kConfiguration.
absl::Status CheckWantedTableDirectory();

// `env`, `transport` and `registry` must outlive the tasks.
absl::StatusOr<std::unique_ptr<LocalTasks>> StartInProcessTasks(int num_ps, int num_workers,
                                                                env::Env* env,
                                                                net::Transport* transport,
                                                                const graph::OpRegistry* registry);

// `directory` has coxswain-worker and coxswain-ps. The daemons obey anyone who has `secret` (if
// empty: everybody), and have sockets that only processes of this user can reach; with
// COXSWAIN_TRANSPORT=grpc in the environment they listen on loopback, on ports that stay reserved
// for them. Once they are watched, those that end are restarted as `restarts` allows. Errors:
// NotFound when the programs do not exist; DeadlineExceeded when one does not print its port in
// time; Unavailable when one ends at once, with how it ended and what it printed.
absl::StatusOr<std::unique_ptr<LocalTasks>> StartChildTasks(int num_ps, int num_workers,
                                                            int worker_threads,
                                                            const std::string& directory,
                                                            const net::Secret& secret,
                                                            const RestartPolicy& restarts = {});

}  // namespace coxswain::local
