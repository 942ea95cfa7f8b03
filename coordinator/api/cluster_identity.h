// Which cluster it is, in words that are the same for every coordinator of it.
#pragma once

#include <string>

#include "runtime/cluster/cluster_config.h"

namespace coxswain {

// The addresses of its parameter servers; of loopback also the machine's name.
std::string ClusterIdentity(const cluster::ClusterConfig& config);

}  // namespace coxswain
