// Those who have connected to a listener and have proven nothing yet: each has some seconds, and
// there are not many.
//
// When there are too many, the oldest goes if it has had a second: a friend needs some milliseconds
// for its proof, also when a thousand of them come at once, so this one is none. Otherwise the
// newest is not let in; a friend tries again. So to keep friends out somebody has to open as many
// connections each second, all the time. (If the newest always had to go, he could hold all places
// with a fifth of that; if the oldest always had to go, he could push friends out who are in the
// middle of their proof.)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/net/poller.h"

namespace coxswain::net {

struct StrangerLimits {
  absl::Duration patience = absl::Seconds(5);  // then a stranger has to go
  absl::Duration least = absl::Seconds(1);     // what everybody has who was let in
  size_t most = 2048;
};

// Thread-safe. No lock is held while somebody is turned away.
class Strangers : public std::enable_shared_from_this<Strangers> {
 public:
  // Called at most once, on any thread, perhaps before Enter returned; not after Leave returned
  // true.
  using TurnAway = std::function<void(absl::string_view why)>;

  Strangers(const StrangerLimits& limits, std::shared_ptr<Poller> poller)
      : limits_(limits), poller_(std::move(poller)) {}

  // Lets one in. 0: there is no room, `turn_away` is never called.
  uint64_t Enter(TurnAway turn_away);
  // It has proven itself, or gone. False: it is not here any more.
  bool Leave(uint64_t number);

 private:
  struct Stranger {
    absl::Duration since;
    TurnAway turn_away;
  };
  void SetTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TurnAwayLate();

  const StrangerLimits limits_;
  const std::shared_ptr<Poller> poller_;  // for its timers
  absl::Mutex mu_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  bool timer_set_ ABSL_GUARDED_BY(mu_) = false;
  std::map<uint64_t, Stranger> strangers_ ABSL_GUARDED_BY(mu_);  // the oldest first
};

// Says in the log who was refused, but not each of many. Thread-safe.
class Complaints {
 public:
  void Say(absl::string_view peer, absl::string_view why);

 private:
  absl::Mutex mu_;
  bool said_some_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration said_ ABSL_GUARDED_BY(mu_);
  int64_t unsaid_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::net
