// Decides whether a closure kills its workers: a pure state machine; time is passed in. Owned by
// the Dispatcher.
//
// A closure that has been on several lost workers is suspect. The cause may be a wave of
// preemptions, which ends workers within milliseconds of one another, so that an innocent closure
// goes from one to the next. So a suspect waits for calm and then runs alone, on trial. If that
// worker is lost too, the closure is found guilty, unless another worker was lost at about the same
// time: then it waits for calm again.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

struct QuarantineOptions {
  // Lost workers after which a closure is given up, the last one on trial; at least 2. 0: never.
  int after = 4;
  // A trial begins when no worker was lost for `calm`, or when the closure has waited for
  // `patience`.
  absl::Duration calm = absl::Seconds(4);
  absl::Duration patience = absl::Seconds(5);
  // A worker that is lost within this time before or after the one of the trial clears the closure
  // ...
  absl::Duration window = absl::Seconds(2);
  // ... at most this often, so that no closure waits for ever where workers are lost all the time.
  int most_cleared = 3;
};

class Quarantine {
 public:
  explicit Quarantine(const QuarantineOptions& options) : options_(options) {}

  // A worker was lost while `closures` ran on it, perhaps because of one of them.
  void OnLoss(const std::vector<ClosureId>& closures, absl::Duration now);
  // Whether the closure may run only on trial: without any other closure.
  bool IsSuspect(ClosureId closure) const;
  // Whether the closure was on trial when its worker was lost, and there is no verdict yet.
  bool IsAccused(ClosureId closure) const { return accused_.count(closure) > 0; }
  // For a suspect: when its trial may begin. For an accused closure: when it is found guilty,
  // unless it is cleared before. Changes with each loss.
  absl::Duration NextTime(ClosureId closure) const;
  // True after a closure was cleared: two trials at the same time could clear each other again and
  // again.
  bool one_at_a_time() const { return !cleared_.empty(); }
  void Forget(ClosureId closure);

 private:
  struct Record {
    int losses = 0;  // lost workers that it ran on
    int cleared = 0;
    absl::Duration last_loss;
  };

  // Clears the closure: it waits for another trial, unless it was cleared too often.
  void Clear(ClosureId closure);

  const QuarantineOptions options_;
  absl::flat_hash_map<ClosureId, Record> records_;
  std::set<ClosureId> accused_, cleared_;
  std::optional<absl::Duration> last_loss_;
};

}  // namespace coxswain::core
