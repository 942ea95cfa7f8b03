// The daemons that a job under fire runs on: started for it, or taken over where they run.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/chaos/managed_task.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/net/credentials.h"

namespace coxswain::chaos {

// Thread model: one thread, that of the process's life; see Child.
class ChaosCluster {
 public:
  // `directory` holds coxswain-ps and coxswain-worker; logs and the cluster file go to `work`,
  // which exists. `credentials` are what the daemons find in their environment. Errors: those of
  // ManagedTask::Launch and of the file system.
  static absl::StatusOr<ChaosCluster> Start(int num_ps, int num_workers, int worker_threads,
                                            const std::string& directory,
                                            net::Credentials credentials, const std::string& work);
  // Daemons of this machine that run already, of this cluster file.
  // Errors: those of ReadClusterConfig; FailedPrecondition with cause kConfiguration for one on
  // another machine; Unavailable with cause kUnreachable for one that does not answer.
  static absl::StatusOr<ChaosCluster> Adopt(const std::string& cluster_file,
                                            net::Credentials credentials, absl::Duration timeout);

  ChaosCluster(ChaosCluster&&) = default;
  ~ChaosCluster();  // End

  const cluster::ClusterConfig& config() const { return config_; }
  const std::string& file() const { return file_; }
  const net::Credentials& credentials() const { return credentials_; }
  std::vector<ManagedTask>& ps() { return ps_; }
  std::vector<ManagedTask>& workers() { return workers_; }

  // Nothing is stopped afterwards. Daemons that were started here are ended; those that were taken
  // over run again, also those that a fault had ended.
  void End();

 private:
  ChaosCluster() = default;

  bool adopted_ = false;
  cluster::ClusterConfig config_;
  net::Credentials credentials_;
  std::string file_;
  std::vector<ManagedTask> ps_, workers_;
};

}  // namespace coxswain::chaos
