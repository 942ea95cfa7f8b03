// The cluster that a command's flags name.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/cluster_reload.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/predict/remote_model.h"
#include "coxswain/cluster.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain::cli {

// The daemons that a job runs on; empty when it starts its own tasks. Errors have the cause
// kConfiguration.
absl::StatusOr<cluster::ClusterConfig> ReadWhere(const Where& where);

// The files that the flags name.
void AddInputsOf(const Where& where, std::vector<CommandInput>* inputs);

// For commands that work in this process unless they are told where else.
bool IsElsewhere(const Where& where);
// Null unless it is.
predict::OpenCluster OpenerOf(const Where& where);

ClusterOptions MakeClusterOptions(const job::JobSpec& job, const Where& where);

// `reload`: is attached to a cluster of daemons; null: none is to be. Errors: those of Cluster; of
// --local also that there is nothing to start.
absl::StatusOr<Cluster> OpenCluster(const Where& where, cluster::ClusterConfig config,
                                    ClusterOptions options, ClusterReload* reload);

}  // namespace coxswain::cli
