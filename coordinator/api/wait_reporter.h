// What a wait for closures says when it takes long: what it waits for, and what can be done; and
// the end of such a wait.
//
// Thread model: thread-safe. It does not keep the cluster alive.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coxswain/cluster.h"
#include "runtime/base/ids.h"

namespace coxswain {

// A wait that takes longer than this is reported, and goes on.
constexpr absl::Duration kSilence = absl::Seconds(30);

// The state of a cluster during a wait.
struct WaitFacts {
  bool known = true;  // false: the coordinator itself does not answer
  int workers_ready = 0;
  int workers = 0;
  std::string waiting_for;  // empty: closures can run
};

// "waiting for 12 closures since 30s: 0 of 2 workers are there; ...".
std::string DescribeWait(absl::string_view what, absl::Duration waited, const WaitFacts& facts);

class WaitReporter {
 public:
  explicit WaitReporter(const Cluster& cluster) : state_(cluster.state_) {}

  // Logs a warning with the state of the cluster. `what`: "12 closures", "room in the queue".
  void Report(absl::string_view what, absl::Duration waited) const;
  // Nothing when the cluster is gone.
  void CancelClosure(std::shared_ptr<std::atomic<ClosureId>> number) const;

 private:
  std::weak_ptr<ClusterState> state_;
};

}  // namespace coxswain
