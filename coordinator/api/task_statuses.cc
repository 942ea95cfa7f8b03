#include "coordinator/api/task_statuses.h"

#include <utility>

#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"

namespace coxswain {

std::vector<proto::TaskStatus> TaskStatuses(const Cluster& cluster, bool staleness) {
  auto statuses = WaitForValue<std::vector<proto::TaskStatus>>(
      [&](auto done) { cluster.controller()->QueryStatus(std::move(done), staleness); });
  return statuses.ok() ? *std::move(statuses) : std::vector<proto::TaskStatus>();
}

}  // namespace coxswain
