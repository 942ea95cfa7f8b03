#include "runtime/data/stream/part_answers.h"

#include "runtime/base/status.h"

namespace coxswain::data {

bool IsWorkerLost(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail &&
         (detail->cause == ErrorCause::kTaskLost || detail->cause == ErrorCause::kStaleEpoch ||
          detail->cause == ErrorCause::kTerminated || detail->cause == ErrorCause::kCancelled);
}

absl::Status NotWanted() {
  return WithDetail(absl::CancelledError("the index is not wanted any more"),
                    {ErrorCause::kCancelled, false, "", 0});
}

}  // namespace coxswain::data
