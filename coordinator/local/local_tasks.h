// Tasks that a coordinator runs itself: in its own process, or as child processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/env/env.h"
#include "runtime/graph/op.h"
#include "runtime/net/transport.h"

namespace coxswain {

class LocalTasks {
 public:
  virtual ~LocalTasks() = default;  // ends the tasks
  virtual const ClusterConfig& config() const = 0;
};

// How many tasks of this machine.
struct LocalSize {
  int ps = 1, workers = 1;
};
// "2x3": 2 parameter servers and 3 workers. Errors: InvalidArgument with cause kConfiguration.
absl::StatusOr<LocalSize> ParseLocalSize(const std::string& text);

// The directory of this program, where the daemons' programs are too.
absl::StatusOr<std::string> ProgramDirectory();

// Compute threads of each of so many workers, such that they share this machine's cores.
int ThreadsPerWorker(int num_workers);

// `env`, `transport` and `registry` must outlive the tasks.
absl::StatusOr<std::unique_ptr<LocalTasks>> StartInProcessTasks(int num_ps, int num_workers,
                                                                Env* env, Transport* transport,
                                                                const OpRegistry* registry);

// `directory` holds coxswain-worker and coxswain-ps. They listen on loopback, on ports they pick.
// Errors: NotFound when the programs are not there; DeadlineExceeded when one does not say its port
// in time; Unavailable when one ends at once, with what it printed.
absl::StatusOr<std::unique_ptr<LocalTasks>> StartChildTasks(int num_ps, int num_workers,
                                                            int worker_threads,
                                                            const std::string& directory);

}  // namespace coxswain
