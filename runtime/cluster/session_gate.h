// Who may command a daemon: at most one coordinator, the one with the newest epoch.
//
// A pure state machine: it gets the time passed in and has no thread, clock or socket. Owned by the
// daemon's loop.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"

namespace coxswain {

class SessionGate {
 public:
  // A coordinator says hello at `now` (monotonic); `wall` is for people.
  // OK: it holds the daemon from now on; `*fresh` tells whether the epoch is new, so that what an
  // older session left must be dropped. Errors: FailedPrecondition with cause kClusterHeld while
  // another coordinator's lease runs (says who, since when and for how long), or kStaleEpoch for an
  // epoch older than one seen.
  absl::Status Hello(const proto::HelloRequest& hello, absl::Duration now, absl::Time wall,
                     bool* fresh);
  // Anything from the holder renews its lease.
  void Renew(absl::Duration now) { last_heard_ = now; }
  // FailedPrecondition with cause kStaleEpoch unless `epoch` is the holder's.
  absl::Status Check(Epoch epoch) const;
  // The lease ran out (or EndSession): the daemon is free. True when it was held.
  bool Release();
  bool Expired(absl::Duration now) const { return held_ && now > last_heard_ + lease_; }

  bool held() const { return held_; }
  Epoch epoch() const { return epoch_; }
  Epoch highest_epoch() const { return highest_; }
  const std::string& holder() const { return holder_; }
  absl::Time since() const { return since_; }
  absl::Duration lease() const { return lease_; }

 private:
  bool held_ = false;
  Epoch epoch_ = 0;
  Epoch highest_ = 0;
  std::string holder_;
  absl::Time since_;
  absl::Duration lease_ = absl::Seconds(2);
  absl::Duration last_heard_;
};

}  // namespace coxswain
