// Counts lost tasks and the duration of recoveries. Does no I/O; time is passed in. Owned by the
// coordinator's loop.
#pragma once

#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "coxswain/checkpoint.h"

namespace coxswain::core {

class FailureLog {
 public:
  FailureStats& stats() { return stats_; }
  const FailureStats& stats() const { return stats_; }

  // A lost worker is back, or a lost PS with all that it had.
  void TaskBack(absl::Duration away) {
    ++stats_.recovered;
    stats_.recovery_seconds.push_back(absl::ToDoubleSeconds(away));
  }
  // All shards are restored after this number of PS were lost, the first one at `since`. The
  // recovery is over when closures run.
  void ShardsBack(int lost, absl::Duration since) {
    ps_recovering_ += lost;
    if (!recovering_since_) recovering_since_ = since;
  }
  void ClosuresRun(absl::Duration now) {
    if (!recovering_since_) return;
    stats_.recovered += std::exchange(ps_recovering_, 0);
    const absl::Duration since = *std::exchange(recovering_since_, std::nullopt);
    stats_.recovery_seconds.push_back(absl::ToDoubleSeconds(now - since));
  }

 private:
  FailureStats stats_;
  std::optional<absl::Duration> recovering_since_;
  int ps_recovering_ = 0;
};

}  // namespace coxswain::core
