// Counts what training closures report; read by the progress display. Thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "runtime/data/ticket.h"

namespace coxswain::runner {

class TrainingMeter {
 public:
  struct Reading {
    int64_t steps = 0, examples = 0;
    double seconds = 0;      // of training, pauses left out
    double recent_loss = 0;  // mean over about the last 50 closures
    double mean_loss = 0;    // of the examples since the last ResetMean, by their weights
  };
  // What a resumed run goes on with.
  struct Memory {
    int64_t steps = 0, examples = 0;
    double seconds = 0;
    double recent_loss = 0;
    int64_t closures = 0;    // in recent_loss
    double loss_sum = 0;     // since the last ResetMean: losses times the weights of their examples
    double loss_weight = 0;  // and these weights
  };

  void Resume() {
    absl::MutexLock lock(&mu_);
    resumed_ = absl::Now();
    running_ = true;
  }
  void Pause() {
    absl::MutexLock lock(&mu_);
    memory_.seconds = Seconds();
    running_ = false;
  }
  void ResetMean() {
    absl::MutexLock lock(&mu_);
    memory_.loss_sum = 0;
    memory_.loss_weight = 0;
  }

  // A closure of `steps` steps is over whose last one was the job's step number `last_step` (in the
  // order of the data, from 1) and had this loss, a mean over examples of this weight. Without
  // weight it says nothing. Errors: Aborted when the loss is not a finite number.
  absl::Status Add(const Ticket& ticket, int64_t steps, int64_t last_step, float loss,
                   double weight) {
    absl::MutexLock lock(&mu_);
    memory_.steps += steps;
    memory_.examples += ticket.size();
    if (!std::isfinite(loss)) {
      return absl::AbortedError(absl::StrCat(
          "the loss is ", loss, " at step ", last_step, " (epoch ", ticket.epoch + 1, ", examples ",
          ticket.begin, " to ", ticket.end, "); a smaller learning rate may help"));
    }
    if (!(weight > 0)) return absl::OkStatus();
    // The mean of all as long as these are few, so that the first ones do not stay in it.
    constexpr double kLeastShare = 0.02;
    ++memory_.closures;
    const double share = std::max(kLeastShare, 1 / static_cast<double>(memory_.closures));
    memory_.recent_loss += share * (loss - memory_.recent_loss);
    memory_.loss_sum += weight * loss;
    memory_.loss_weight += weight;
    return absl::OkStatus();
  }

  Reading Read() const {
    absl::MutexLock lock(&mu_);
    Reading r;
    r.steps = memory_.steps;
    r.examples = memory_.examples;
    r.seconds = Seconds();
    r.recent_loss = memory_.recent_loss;
    r.mean_loss = memory_.loss_weight > 0 ? memory_.loss_sum / memory_.loss_weight : 0;
    return r;
  }

  Memory Save() const {
    absl::MutexLock lock(&mu_);
    Memory memory = memory_;
    memory.seconds = Seconds();
    return memory;
  }
  void Restore(const Memory& memory) {
    absl::MutexLock lock(&mu_);
    memory_ = memory;
  }

 private:
  double Seconds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return memory_.seconds + (running_ ? absl::ToDoubleSeconds(absl::Now() - resumed_) : 0);
  }

  mutable absl::Mutex mu_;
  Memory memory_ ABSL_GUARDED_BY(mu_);
  absl::Time resumed_ ABSL_GUARDED_BY(mu_);
  bool running_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::runner
