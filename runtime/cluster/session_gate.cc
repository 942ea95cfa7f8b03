#include "runtime/cluster/session_gate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr absl::Duration kMinLease = absl::Milliseconds(50);
constexpr absl::Duration kMaxLease = absl::Hours(1);

}  // namespace

absl::Status SessionGate::Hello(const proto::HelloRequest& hello, absl::Duration now,
                                absl::Time wall, bool* fresh) {
  if (hello.epoch() < highest_) {
    return WithDetail(absl::FailedPreconditionError(
                          absl::StrCat("epoch ", hello.epoch(), " of coordinator ", hello.name(),
                                       " is older than epoch ", highest_, " of ", holder_)),
                      {ErrorCause::kStaleEpoch, true, "", 0});
  }
  if (held_ && hello.epoch() != epoch_ && !Expired(now)) {
    return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                          "held by coordinator ", holder_, " since ",
                          absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", since_, absl::UTCTimeZone()),
                          "; end that one, or wait for its lease of ", absl::FormatDuration(lease_),
                          " to run out")),
                      {ErrorCause::kClusterHeld, true, "", 0});
  }
  *fresh = !held_ || hello.epoch() != epoch_;
  if (*fresh) since_ = wall;
  held_ = true;
  epoch_ = hello.epoch();
  highest_ = std::max(highest_, epoch_);
  holder_ = hello.name();
  lease_ = std::clamp(absl::Seconds(hello.lease_seconds()), kMinLease, kMaxLease);
  last_heard_ = now;
  return absl::OkStatus();
}

absl::Status SessionGate::Check(Epoch epoch) const {
  if (held_ && epoch == epoch_) return absl::OkStatus();
  return WithDetail(
      absl::FailedPreconditionError(
          held_ ? absl::StrCat("message of epoch ", epoch, "; the cluster is at epoch ", epoch_)
                : absl::StrCat("message of epoch ", epoch, "; no coordinator holds this task")),
      {ErrorCause::kStaleEpoch, false, "", 0});
}

bool SessionGate::Release() {
  const bool was_held = held_;
  held_ = false;
  return was_held;
}

}  // namespace coxswain
