// A text that identifies a cluster, the same for all of its coordinators.
#pragma once

#include <string>

#include "runtime/cluster/cluster_config.h"

namespace coxswain {

// The addresses of its parameter servers; for loopback addresses also the machine's name.
std::string ClusterIdentity(const cluster::ClusterConfig& config);

}  // namespace coxswain
