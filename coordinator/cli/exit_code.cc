#include "coordinator/cli/exit_code.h"

#include "runtime/base/status.h"

namespace coxswain::cli {

ExitCode ToExitCode(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  if (const auto detail = GetDetail(status)) {
    switch (detail->cause) {
      case ErrorCause::kConfiguration:
        return kExitUsage;
      case ErrorCause::kUnreachable:
      case ErrorCause::kClusterHeld:
        return kExitUnreachable;
      default:
        break;
    }
  }
  return kExitJobFailed;
}

}  // namespace coxswain::cli
