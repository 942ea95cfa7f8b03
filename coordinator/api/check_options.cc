#include "coordinator/api/check_options.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

absl::Status Wrong(absl::string_view option, absl::string_view wanted, absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("ClusterOptions::", option, ": wanted ", wanted, ", found ", found));
}

absl::Status AtLeast(int64_t least, absl::string_view option, int64_t number) {
  if (number >= least) return absl::OkStatus();
  return Wrong(option, absl::StrCat("at least ", least), absl::StrCat(number));
}

absl::Status Positive(absl::string_view option, absl::Duration time) {
  if (time > absl::ZeroDuration()) return absl::OkStatus();
  return Wrong(option, "a time above 0", absl::FormatDuration(time));
}

absl::Status NotNegative(absl::string_view option, absl::Duration time) {
  if (time >= absl::ZeroDuration()) return absl::OkStatus();
  return Wrong(option, "a time of at least 0", absl::FormatDuration(time));
}

}  // namespace

absl::Status CheckOptions(const ClusterOptions& options) {
  RETURN_IF_ERROR(AtLeast(1, "closures_in_flight", options.closures_in_flight));
  RETURN_IF_ERROR(Positive("lease", options.lease));
  RETURN_IF_ERROR(Positive("connect_timeout", options.connect_timeout));
  RETURN_IF_ERROR(NotNegative("straggler_timeout", options.straggler_timeout));
  RETURN_IF_ERROR(AtLeast(0, "threads", options.threads));
  RETURN_IF_ERROR(AtLeast(0, "local_restarts", options.local_restarts));
  const RecoveryOptions& recovery = options.recovery;
  RETURN_IF_ERROR(NotNegative("recovery.ps_return_timeout", recovery.ps_return_timeout));
  RETURN_IF_ERROR(Positive("recovery.cluster_timeout", recovery.cluster_timeout));
  if (recovery.quarantine_after < 0 || recovery.quarantine_after == 1) {
    return Wrong("recovery.quarantine_after", "0 or at least 2",
                 absl::StrCat(recovery.quarantine_after));
  }
  RETURN_IF_ERROR(NotNegative("recovery.closure_timeout", recovery.closure_timeout));
  RETURN_IF_ERROR(AtLeast(1, "recovery.most_timeouts", recovery.most_timeouts));
  RETURN_IF_ERROR(AtLeast(1, "recovery.max_window", recovery.max_window));
  RETURN_IF_ERROR(AtLeast(0, "recovery.max_log_closures", recovery.max_log_closures));
  return AtLeast(0, "recovery.max_log_bytes", recovery.max_log_bytes);
}

}  // namespace coxswain
