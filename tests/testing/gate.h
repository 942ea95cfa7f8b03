// Keeps the only compute thread of a cluster busy until it is opened: nothing that needs a worker's
// or a parameter server's pool can run meanwhile.
#pragma once

#include <memory>

#include "absl/synchronization/notification.h"
#include "coxswain/cluster.h"
#include "runtime/env/env.h"

namespace coxswain::testing {

class Gate {
 public:
  explicit Gate(const Cluster& cluster) : state_(std::make_shared<State>()) {
    cluster.env()->pool()->Schedule([state = state_] {
      state->closed.Notify();
      state->open.WaitForNotification();
    });
    state_->closed.WaitForNotification();
  }
  ~Gate() { Open(); }
  void Open() {
    if (!state_->open.HasBeenNotified()) state_->open.Notify();
  }

 private:
  struct State {
    absl::Notification closed, open;
  };
  std::shared_ptr<State> state_;
};

}  // namespace coxswain::testing
