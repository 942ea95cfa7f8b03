// The status reports of a cluster's tasks.
#pragma once

#include <vector>

#include "coxswain/cluster.h"
#include "protos/control.pb.h"

namespace coxswain {

// Of every task that answers, in no order. Waits for their answers, or until they are lost.
// Thread-safe. With `staleness` shards say how late gradients were.
std::vector<proto::TaskStatus> TaskStatuses(const Cluster& cluster, bool staleness = false);

}  // namespace coxswain
