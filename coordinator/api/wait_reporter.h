// What a wait for closures or tasks says when it takes long: what it waits for, and what can be
// done; and the end of a wait for closures.
//
// Thread model: thread-safe. It does not keep the cluster alive.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/api/wait.h"
#include "coxswain/cluster.h"
#include "runtime/base/ids.h"

namespace coxswain {

// The state of a cluster during a wait.
struct WaitFacts {
  bool known = true;  // false: the coordinator itself does not answer
  int workers_ready = 0;
  int workers = 0;
  std::string waiting_for;   // empty: closures can run
  std::string working = {};  // the task that has worked longest on one request; empty: none is slow
};

// "waiting for 12 closures since 30s: 0 of 2 workers are there; ...".
std::string DescribeWait(absl::string_view what, absl::Duration waited, const WaitFacts& facts);

class WaitReporter {
 public:
  explicit WaitReporter(const Cluster& cluster) : state_(cluster.state_) {}

  // Logs a warning with the state of the cluster. `what`: "12 closures", "room in the queue".
  void Report(absl::string_view what, absl::Duration waited) const;
  // What does so with this `what`.
  StillWaiting For(std::string what) const {
    return [*this, what = std::move(what)](absl::Duration waited) { Report(what, waited); };
  }
  // Nothing when the cluster is gone.
  void CancelClosure(std::shared_ptr<std::atomic<ClosureId>> number) const;

 private:
  std::weak_ptr<ClusterState> state_;
};

}  // namespace coxswain
