// Values that are read in several requests, though shards may go back to a checkpoint in between.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coxswain/cluster.h"
#include "runtime/base/ids.h"

namespace coxswain {

// Waits until no closure that was over runs again because a parameter server was lost; see
// Controller::AwaitRerun. Every 30 s it logs what it waits for.
absl::StatusOr<Generation> AwaitRerun(const Cluster& cluster);

// Calls `read`, and again, up to kMostReads times in all, if shards went back to a checkpoint or
// moved meanwhile: of what it has read some would be from before that, and rows of hash tables have
// other places. `what`: for people. Errors: those of `read` with shards that stayed; that of the
// job; Unavailable with cause kTaskLost when they never did.
constexpr int kMostReads = 10;
absl::Status ReadAsOne(const Cluster& cluster, absl::string_view what,
                       const std::function<absl::Status()>& read);

}  // namespace coxswain
