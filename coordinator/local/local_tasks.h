// Tasks that a coordinator runs itself: in its own process, or as child processes.
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

// What happens to tasks that are watched. Called on a thread of their own; must neither block nor
// call the tasks.
struct LocalTaskEvents {
  // The process that is behind this address from now on; it may not be there yet.
  std::function<void(const std::string& address, Incarnation incarnation)> on_incarnation;
  // "/job:worker/task:1" has ended: how, and whether it is started again.
  std::function<void(const std::string& task, const std::string& message)> on_ended;
  // All parameter servers or all workers have ended, and none is started again.
  std::function<void(absl::Status)> on_hopeless;
};

class LocalTasks {
 public:
  virtual ~LocalTasks() = default;  // ends the tasks
  virtual const cluster::ClusterConfig& config() const = 0;
  // Which process is behind which address. An address that is not there may be anybody's.
  virtual std::map<std::string, Incarnation> incarnations() const { return {}; }
  // From now on tasks that end, or have ended, are started again.
  virtual void Watch(LocalTaskEvents events) { (void)events; }
  // None is started any more, and no event comes once this has returned.
  virtual void StopWatching() {}
};

// How many tasks of this machine.
struct LocalSize {
  int ps = 1, workers = 1;
};
// "2x3": 2 parameter servers and 3 workers. Errors: InvalidArgument with cause kConfiguration.
absl::StatusOr<LocalSize> ParseLocalSize(const std::string& text);

// The directory of this program, where the daemons' programs are too.
absl::StatusOr<std::string> ProgramDirectory();

// Compute threads of each of `num_workers` workers, such that they share this machine's cores.
int ThreadsPerWorker(int num_workers);

// `env`, `transport` and `registry` must outlive the tasks.
absl::StatusOr<std::unique_ptr<LocalTasks>> StartInProcessTasks(int num_ps, int num_workers,
                                                                env::Env* env,
                                                                net::Transport* transport,
                                                                const graph::OpRegistry* registry);

// `directory` holds coxswain-worker and coxswain-ps. They obey who has `secret` (an empty one:
// everybody), and have sockets that only processes of this user reach; with COXSWAIN_TRANSPORT=grpc
// in the environment they listen on loopback, on ports that stay theirs. Once they are watched,
// those that end are started again as `restarts` says. Errors: NotFound when the programs are not
// there; DeadlineExceeded when one does not say its port in time; Unavailable when one ends at
// once, with how it ended and what it printed.
absl::StatusOr<std::unique_ptr<LocalTasks>> StartChildTasks(int num_ps, int num_workers,
                                                            int worker_threads,
                                                            const std::string& directory,
                                                            const net::Secret& secret,
                                                            const RestartPolicy& restarts = {});

}  // namespace coxswain::local
