#include "runtime/cluster/session_gate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::cluster {
namespace {

constexpr absl::Duration kMinLease = absl::Milliseconds(50);
constexpr absl::Duration kMaxLease = absl::Hours(1);

}  // namespace

absl::Status SessionGate::CheckFree(absl::Duration now) const {
  if (!held_ || Expired(now)) return absl::OkStatus();
  return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                        "held by coordinator ", holder_, " since ",
                        absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", since_, absl::UTCTimeZone()),
                        "; end that one, or wait for its lease of ", absl::FormatDuration(lease_),
                        " to run out")),
                    {ErrorCause::kClusterHeld, true, "", 0});
}

absl::Status SessionGate::Hello(const proto::HelloRequest& hello, absl::Duration now,
                                absl::Time wall, bool* fresh) {
  const Session session{hello.epoch(), hello.nonce()};
  if (!session.chosen() || session.epoch > kMaxEpoch) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted an epoch of 1 to 2^62, found ", session.epoch));
  }
  const bool again = session == last_;
  if (!again) {
    RETURN_IF_ERROR(CheckFree(now));
    if (hello.expected_epoch() != last_.epoch) {
      return WithDetail(
          absl::FailedPreconditionError(absl::StrCat(
              "coordinator ", hello.name(), " knows of epoch ", hello.expected_epoch(), "; epoch ",
              last_.epoch, " of coordinator ", holder_, " was here since")),
          {ErrorCause::kStaleEpoch, true, "", 0});
    }
  }
  *fresh = !held_ || !again;
  if (*fresh) since_ = wall;
  held_ = true;
  last_ = session;
  session_ = session.id();
  holder_ = hello.name();
  lease_ = std::clamp(absl::Seconds(hello.lease_seconds()), kMinLease, kMaxLease);
  last_heard_ = now;
  return absl::OkStatus();
}

absl::Status SessionGate::Check(SessionId session) const {
  if (held_ && session == session_) return absl::OkStatus();
  return WithDetail(
      absl::FailedPreconditionError(
          held_ ? absl::StrCat("message of another session than that of coordinator ", holder_,
                               ", which holds this task")
                : "message of a session that is over; no coordinator holds this task"),
      {ErrorCause::kStaleEpoch, false, "", 0});
}

bool SessionGate::Release() {
  const bool was_held = held_;
  held_ = false;
  return was_held;
}

}  // namespace coxswain::cluster
