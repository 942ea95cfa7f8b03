// What the tasks of a cluster say of themselves.
#pragma once

#include <vector>

#include "coxswain/cluster.h"
#include "protos/control.pb.h"

namespace coxswain {

// Of every task that answers, in no order. Waits for their answers, or until they are lost.
// Thread-safe.
std::vector<proto::TaskStatus> TaskStatuses(const Cluster& cluster);

}  // namespace coxswain
