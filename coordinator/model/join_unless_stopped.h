// Waiting for closures that change nothing, as those of an evaluation, in a job that may be
// interrupted meanwhile.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coxswain/cluster_coordinator.h"

namespace coxswain::model {

// Once `stopped` says so, what no worker has begun is not run. Errors: Cancelled then; those of
// Join.
inline absl::Status JoinUnlessStopped(ClusterCoordinator* coordinator,
                                      const std::function<bool()>& stopped) {
  constexpr absl::Duration kLook = absl::Milliseconds(100);
  while (!coordinator->Done(kLook)) {
    if (!stopped()) continue;
    coordinator->Cancel();
    coordinator->JoinScheduled().IgnoreError();
    return absl::CancelledError("interrupted");
  }
  return coordinator->Join();
}

}  // namespace coxswain::model
