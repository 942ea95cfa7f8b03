// The options of a coordinator.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coxswain/cluster.h"
#include "runtime/base/ids.h"
#include "runtime/base/session_id.h"

namespace coxswain::core {

struct ControllerOptions {
  std::vector<std::string> workers, ps;  // addresses
  // The only process that is admitted at an address; any process for other addresses.
  std::map<std::string, Incarnation> incarnations;
  std::string name;   // "films (host:pid)", for messages
  int in_flight = 2;  // closures per worker
  absl::Duration lease = absl::Seconds(2);
  // How long Start waits for the cluster, and how long for workers beyond the first.
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration straggler_timeout = absl::Seconds(5);
  RecoveryOptions recovery;
  // Lower bound of the session's epoch, so that a resumed job has a newer one than before.
  Epoch min_epoch = 0;
  // Called on the loop; must not block or call the controller.
  std::function<void(const ClusterEvent&)> on_event;
};

}  // namespace coxswain::core
