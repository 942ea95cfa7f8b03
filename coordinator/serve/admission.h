// Who may predict now: some at once, some more may wait for a while, and all others are turned
// away, so that neither memory nor waiting times grow with what is asked.
//
// Thread-safe.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace coxswain::serve {

struct AdmissionOptions {
  int at_once = 1;
  int waiting = 0;
  absl::Duration patience = absl::Seconds(1);
};

class Admission {
 public:
  explicit Admission(AdmissionOptions options) : options_(options) {}

  // A place, as long as it lives; none for who is turned away.
  class Place {
   public:
    explicit Place(Admission* admission) : admission_(admission) {}
    Place(Place&& other) noexcept : admission_(other.admission_) { other.admission_ = nullptr; }
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (admission_ != nullptr) admission_->Leave();
    }
    explicit operator bool() const { return admission_ != nullptr; }

   private:
    Admission* admission_;
  };
  Place Enter();

 private:
  void Leave();

  const AdmissionOptions options_;
  absl::Mutex mutex_;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace coxswain::serve
