#include "coordinator/api/task_statuses.h"

#include <utility>

#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"

namespace coxswain {
namespace {

// Tasks answer at once, unless one hangs that still answers pings.
constexpr absl::Duration kStatusTimeout = absl::Minutes(10);

}  // namespace

std::vector<proto::TaskStatus> TaskStatuses(const Cluster& cluster, bool staleness) {
  auto statuses = AskForValue<std::vector<proto::TaskStatus>>(
      [&](auto done) { cluster.controller()->QueryStatus(std::move(done), staleness); },
      kStatusTimeout);
  return statuses.ok() ? *std::move(statuses) : std::vector<proto::TaskStatus>();
}

}  // namespace coxswain
