#include "runtime/base/mistake.h"

#include "runtime/base/status.h"

namespace coxswain {

absl::Status AsMistake(const absl::Status& status) {
  if (status.ok() || absl::IsUnavailable(status) || absl::IsInternal(status) || GetDetail(status)) {
    return status;
  }
  return WithDetail(status, {ErrorCause::kConfiguration, false, "", 0});
}

}  // namespace coxswain
