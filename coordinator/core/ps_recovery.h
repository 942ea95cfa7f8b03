// What to do about lost parameter servers, and whether shards may move: a pure state machine. It
// gets the time passed in and has no thread, clock or socket. Owned by the coordinator's loop.
//
// Its phases are those of phase.h from running to restoring. A PS that is lost leads to waiting
// from each of them; waiting ends when all lost ones are back or have been waited for long enough.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "coordinator/core/phase.h"

namespace coxswain::core {

class PsRecovery {
 public:
  // `return_timeout`: how long a lost PS is waited for before its shards go elsewhere.
  explicit PsRecovery(absl::Duration return_timeout) : return_timeout_(return_timeout) {}

  Phase phase() const { return phase_; }
  bool running() const { return ShardsAreThere(phase_); }
  bool restoring() const { return ShardsComeBack(phase_); }
  bool moving() const { return ShardsMove(phase_); }
  // Whether restoring began since the first loss: then nothing is as it was before.
  bool begun() const { return begun_; }
  bool IsLost(int ps) const { return lost_.count(ps) > 0; }
  int lost() const { return static_cast<int>(lost_.size()); }
  absl::Duration since() const { return since_; }  // of the first loss

  void Lost(int ps, absl::Duration now);
  // It is there again, without its shards.
  void Back(int ps);
  // Only its connection was broken. Not after restoring began. True when no PS is lost any more, so
  // that all goes on.
  bool Intact(int ps);

  struct Decision {
    std::set<int> gone;  // not waited for any longer: their shards go to others
  };
  // Whether shards can be restored now. `there`: all PS that are up.
  std::optional<Decision> Decide(absl::Duration now, const std::set<int>& there) const;
  // When to ask again, if nothing happens: when the last lost PS need not be waited for any longer.
  absl::Duration Deadline() const;
  void Begin();
  // While none is lost, one after the other: shards are to move, can move, and do.
  void Drain() { phase_ = Phase::kDraining; }
  void Save() { phase_ = Phase::kSaving; }
  void Move(absl::Duration now);
  // They stay. Not while they move.
  void Stay() { phase_ = Phase::kRunning; }
  // What Begin started came to nothing; it is tried again.
  void Again();
  // All shards are there.
  void Finish();

  // For people: "ps:1, lost 3s ago".
  std::string ToString(absl::Duration now) const;

 private:
  struct Task {
    absl::Duration since;
    bool up = false;
  };

  const absl::Duration return_timeout_;
  Phase phase_ = Phase::kRunning;
  bool begun_ = false;
  absl::Duration since_;
  std::map<int, Task> lost_;
};

}  // namespace coxswain::core
