// Who may command a daemon: at most one coordinator.
//
// A pure state machine: it gets the time passed in and has no thread, clock or socket. Owned by the
// daemon's loop.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/base/session_id.h"

namespace coxswain::cluster {

// No clock and no order of epochs decides. A session takes a free daemon if it knows the epoch that
// was there last, which the daemon tells coordinators that ask; so nobody takes it who has not seen
// what came before, and no epoch that was here, however high, keeps later coordinators out. A
// session that was here last may come back until another one has come.
class SessionGate {
 public:
  // Whether a coordinator that asked could have it. Errors: FailedPrecondition with cause
  // kClusterHeld while another's lease runs (says who, since when and for how long).
  absl::Status CheckFree(absl::Duration now) const;
  // A coordinator says hello at `now` (monotonic), with a session; `wall` is for people.
  // OK: it holds the daemon from now on; `*fresh` tells whether a session begins, so that what an
  // older one left must be dropped. Errors: those of CheckFree; kStaleEpoch when it was told of
  // another epoch than the one that was here last; InvalidArgument for an epoch that no coordinator
  // chooses. Nothing has changed then.
  absl::Status Hello(const proto::HelloRequest& hello, absl::Duration now, absl::Time wall,
                     bool* fresh);
  // Anything from the holder renews its lease.
  void Renew(absl::Duration now) { last_heard_ = now; }
  // FailedPrecondition with cause kStaleEpoch unless `session` is the holder's.
  absl::Status Check(SessionId session) const;
  // The lease ran out (or EndSession): the daemon is free. True when it was held.
  bool Release();
  bool Expired(absl::Duration now) const { return held_ && now > last_heard_ + lease_; }

  bool held() const { return held_; }
  Epoch epoch() const { return last_.epoch; }     // of the session that was here last; 0: none was
  SessionId session() const { return session_; }  // that one's
  const std::string& holder() const { return holder_; }
  absl::Time since() const { return since_; }
  absl::Duration lease() const { return lease_; }

 private:
  bool held_ = false;
  Session last_;
  SessionId session_ = 0;
  std::string holder_;
  absl::Time since_;
  absl::Duration lease_ = absl::Seconds(2);
  absl::Duration last_heard_;
};

}  // namespace coxswain::cluster
