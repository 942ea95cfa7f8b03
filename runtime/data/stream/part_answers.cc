#include "runtime/data/stream/part_answers.h"

#include "runtime/base/status.h"

namespace coxswain::data {

bool IsWorkerLost(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail &&
         (detail->cause == ErrorCause::kTaskLost || detail->cause == ErrorCause::kStaleEpoch ||
          detail->cause == ErrorCause::kTerminated || detail->cause == ErrorCause::kCancelled);
}

}  // namespace coxswain::data
