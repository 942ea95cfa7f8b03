// Limits how often a task that keeps ending is restarted. Time is passed in.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace coxswain::local {

struct RestartPolicy {
  int most = 10;  // in quick succession; 0: none
  // One more restart becomes available after each of these periods, up to `most`.
  absl::Duration refill = absl::Seconds(30);
  // The delay before the second restart in quick succession; it doubles for each further one.
  absl::Duration first_delay = absl::Milliseconds(100);
  absl::Duration longest_delay = absl::Seconds(5);
};

class RestartBudget {
 public:
  explicit RestartBudget(const RestartPolicy& policy) : policy_(policy) {}

  // The task has ended, or could not be started. Returns how long to wait before it is restarted;
  // nullopt: its restarts are used up. `now` must never go back.
  std::optional<absl::Duration> Spend(absl::Duration now);

 private:
  RestartPolicy policy_;
  double used_ = 0;  // restarts used out of `most`, at time `at_`
  absl::Duration at_;
};

}  // namespace coxswain::local
