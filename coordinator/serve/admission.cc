#include "coordinator/serve/admission.h"

namespace coxswain::serve {

Admission::Place Admission::Enter() {
  absl::MutexLock lock(&mutex_);
  if (inside_ >= options_.at_once) {
    if (waiting_ >= options_.waiting) return Place(nullptr);
    ++waiting_;
    const auto free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return inside_ < options_.at_once;
    };
    const bool entered = mutex_.AwaitWithTimeout(absl::Condition(&free), options_.patience);
    --waiting_;
    if (!entered) return Place(nullptr);
  }
  ++inside_;
  return Place(this);
}

void Admission::Leave() {
  absl::MutexLock lock(&mutex_);
  --inside_;
}

}  // namespace coxswain::serve
