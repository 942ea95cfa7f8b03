// The recovery of lost parameter servers, and whether shards may move: a pure state machine. Time
// is passed in; it has no thread, clock or socket. Owned by the coordinator's loop.
//
// Its phases are those of phase.h from running to restoring. A PS that is lost leads to waiting
// from each of them; waiting ends when each lost PS is back or its time is over.
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
  // `return_timeout`: how long to wait for a lost PS before its shards go to others.
  explicit PsRecovery(absl::Duration return_timeout) : return_timeout_(return_timeout) {}

  Phase phase() const { return phase_; }
  bool running() const { return ShardsAreThere(phase_); }
  bool restoring() const { return ShardsComeBack(phase_); }
  bool moving() const { return ShardsMove(phase_); }
  // Whether restoring has begun since the first loss; if so, the state of shards has changed.
  bool begun() const { return begun_; }
  bool IsLost(int ps) const { return lost_.count(ps) > 0; }
  absl::Duration LostAt(int ps) const { return lost_.at(ps).lost; }  // of one that is lost
  int lost() const { return static_cast<int>(lost_.size()); }
  int first_lost() const { return lost_.begin()->first; }  // when one is lost
  absl::Duration since() const { return since_; }          // of the first loss

  void Lost(int ps, absl::Duration now);
  // No PS is there. What keeps all of them away, such as the coordinator's own network, may end for
  // all at once, and nobody could take the shards of others meanwhile: time that they are waited
  // for stands still until one is there again.
  void AllAway(absl::Duration now);
  // One is there. True if it was the first: the others have another Deadline.
  bool OneThere(absl::Duration now);
  // The PS is back, without its shards.
  void Back(int ps);
  // The PS is back with its shards: only its connection was broken. Not to be called after
  // restoring began. True when no PS is lost any more, so that closures go on.
  bool Intact(int ps);

  // The PS is asked to end, and waits for a checkpoint. True: it is the only one that waits.
  bool Ending(int ps);
  // It waits no more.
  void Ended(int ps) { ending_.erase(ps); }
  const std::set<int>& ending() const { return ending_; }

  // The PS is up, but cannot read the files of shards that it is given, which are there. It is
  // given them again, and given up after as long as one that is lost, if there are others.
  void CannotRead(int ps, absl::Duration now);
  // For how long one has not been able to; zero: all can.
  absl::Duration CannotReadFor(absl::Duration now) const;
  // A PS that was given shards of lost ones was lost while it took them in, as happens where its
  // memory does not suffice: those ones are waited for twice as long from now on.
  void LostWhileTaking();
  // These PS have no memory for the shards that they are given. Others of `there` take what is not
  // their own and, after as long as one that is lost is waited for, these, too. Where all have
  // refused, lost ones are waited for twice as long, and then all may have room again. `why`: for
  // ToString, until all shards are restored. Returns when to try again: each try reads all shards
  // anew.
  absl::Duration NoRoom(const std::set<int>& ps, const std::set<int>& there, const std::string& why,
                        absl::Duration now);
  bool lacks_room() const { return refused_ > 0; }

  struct Decision {
    std::set<int> there;  // shards are restored on these
    std::set<int> gone;   // given up: their shards go to others
    std::set<int> full;   // of `there`: these take no shards but their own
  };
  // Whether PS are waited for, and each of them is back or its time is over.
  bool TimeIsOver(absl::Duration now) const;
  // Whether shards can be restored now. `there`: all PS that are up.
  std::optional<Decision> Decide(absl::Duration now, const std::set<int>& there) const;
  // When to call Decide again, if nothing happens: when the time of the last lost PS is over.
  absl::Duration Deadline() const;
  void Begin();
  // The stages of a move, while no PS is lost: shards will move, can move, and move.
  void Drain() { phase_ = Phase::kDraining; }
  void Save() { phase_ = Phase::kSaving; }
  void Move(absl::Duration now);
  // The move is given up. Not to be called while shards move.
  void Stay() { phase_ = Phase::kRunning; }
  // The restore that Begin started failed and will be tried again.
  void Again();
  // All shards are restored.
  void Finish();

  // For messages: "ps:1, lost 3s ago".
  std::string ToString(absl::Duration now) const;

 private:
  struct Task {
    absl::Duration since;  // without the time that does not count
    bool up = false;
    absl::Duration lost;
  };

  // How long a lost PS is waited for.
  absl::Duration patience() const { return return_timeout_ * (1 << lost_while_taking_); }

  const absl::Duration return_timeout_;
  Phase phase_ = Phase::kRunning;
  bool begun_ = false;
  absl::Duration since_;
  std::optional<absl::Duration> all_away_;  // since when
  std::map<int, Task> lost_;
  std::map<int, absl::Duration> cannot_read_, no_room_;  // since when
  std::string why_no_room_;
  int refused_ = 0;  // times
  int lost_while_taking_ = 0;
  std::set<int> ending_;
};

}  // namespace coxswain::core
