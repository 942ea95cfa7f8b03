// How often a task that keeps ending is started again. Pure: time is passed in.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace coxswain::local {

struct RestartPolicy {
  int most = 10;  // in quick succession; 0: none
  // As time goes by, one more for each of these, up to `most`.
  absl::Duration refill = absl::Seconds(30);
  // Before the second restart in quick succession; before each further one twice as long.
  absl::Duration first_delay = absl::Milliseconds(100);
  absl::Duration longest_delay = absl::Seconds(5);
};

class RestartBudget {
 public:
  explicit RestartBudget(const RestartPolicy& policy) : policy_(policy) {}

  // The task has ended, or could not be started. How long to wait before it is started again;
  // nothing: it has used up its restarts. `now` never goes back.
  std::optional<absl::Duration> Spend(absl::Duration now);

 private:
  RestartPolicy policy_;
  double used_ = 0;  // of `most`, as of `at_`
  absl::Duration at_;
};

}  // namespace coxswain::local
