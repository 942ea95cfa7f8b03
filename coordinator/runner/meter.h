// Counts what training closures report; read by the progress display. Thread-safe.
#pragma once

#include <cmath>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "runtime/data/ticket.h"

namespace coxswain {

class TrainingMeter {
 public:
  struct Reading {
    int64_t steps = 0, examples = 0;
    double seconds = 0;      // of training, pauses left out
    double recent_loss = 0;  // exponential mean over about the last 50 closures
    double mean_loss = 0;    // since the last ResetMean
  };

  void Resume() {
    absl::MutexLock lock(&mu_);
    resumed_ = absl::Now();
    running_ = true;
  }
  void Pause() {
    absl::MutexLock lock(&mu_);
    seconds_ += absl::ToDoubleSeconds(absl::Now() - resumed_);
    running_ = false;
  }
  void ResetMean() {
    absl::MutexLock lock(&mu_);
    sum_ = 0;
    count_ = 0;
  }

  // Errors: Aborted when the loss is not a finite number.
  absl::Status Add(const Ticket& ticket, int64_t steps, float loss) {
    absl::MutexLock lock(&mu_);
    steps_ += steps;
    examples_ += ticket.size();
    if (!std::isfinite(loss)) {
      return absl::AbortedError(absl::StrCat(
          "the loss is ", loss, " at about step ", steps_, " (epoch ", ticket.epoch, ", examples ",
          ticket.begin, " to ", ticket.end, "); a smaller learning rate may help"));
    }
    constexpr double kMemory = 0.98;
    recent_ = count_all_ == 0 ? loss : kMemory * recent_ + (1 - kMemory) * loss;
    ++count_all_;
    sum_ += loss;
    ++count_;
    return absl::OkStatus();
  }

  Reading Read() const {
    absl::MutexLock lock(&mu_);
    Reading r;
    r.steps = steps_;
    r.examples = examples_;
    r.seconds = seconds_ + (running_ ? absl::ToDoubleSeconds(absl::Now() - resumed_) : 0);
    r.recent_loss = recent_;
    r.mean_loss = count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
    return r;
  }

 private:
  mutable absl::Mutex mu_;
  int64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t examples_ ABSL_GUARDED_BY(mu_) = 0;
  double seconds_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time resumed_ ABSL_GUARDED_BY(mu_);
  bool running_ ABSL_GUARDED_BY(mu_) = false;
  double recent_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t count_all_ ABSL_GUARDED_BY(mu_) = 0;
  double sum_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain
