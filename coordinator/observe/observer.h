// Asks tasks how they are, without holding the cluster.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protos/control.pb.h"
#include "runtime/net/transport.h"

namespace coxswain::observe {

// One answer per address, in order. Asks all at once and waits at most `timeout`.
// Errors of an answer: Unavailable when nobody answers there.
std::vector<absl::StatusOr<proto::TaskStatus>> ObserveTasks(
    net::Transport* transport, const std::vector<std::string>& addresses, absl::Duration timeout);

}  // namespace coxswain::observe
