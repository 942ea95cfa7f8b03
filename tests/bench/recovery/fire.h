// Daemons of a benchmark's own, which it can kill and start again at their addresses.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/local/child.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain {

// Thread model: one thread, which lives as long as the object.
class FireDaemons {
 public:
  // On loopback, from the programs in `directory`. Errors: those of Child::Start and ReadAddress.
  static absl::StatusOr<FireDaemons> Start(int ps, int workers, int worker_threads,
                                           const std::string& directory);

  const cluster::ClusterConfig& config() const { return config_; }
  // With SIGKILL; returns when it is gone.
  absl::Status KillWorker(int task) { return Kill(&workers_[static_cast<size_t>(task)]); }
  absl::Status KillPs(int task) { return Kill(&ps_[static_cast<size_t>(task)]); }
  // At its old address; returns when the process has been started, before it listens.
  absl::Status RestartWorker(int task) { return Launch(&workers_[static_cast<size_t>(task)]); }
  absl::Status RestartPs(int task) { return Launch(&ps_[static_cast<size_t>(task)]); }

 private:
  struct Task {
    std::vector<std::string> command;  // without --port
    std::string port = "0";
    local::Child child;
  };

  FireDaemons() = default;
  static absl::Status Kill(Task* task);
  static absl::Status Launch(Task* task);
  // Launches with a port of the task's choice; returns its address.
  static absl::StatusOr<std::string> LaunchAnywhere(Task* task);

  std::vector<Task> ps_, workers_;
  cluster::ClusterConfig config_;
};

}  // namespace coxswain
