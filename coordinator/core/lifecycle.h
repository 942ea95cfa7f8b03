// The life of a coordinator from start to end; see phase.h for the phases in between. Does no I/O.
// Owned by the coordinator's loop.
#pragma once

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/phase.h"

namespace coxswain::core {

class Lifecycle {
 public:
  using DoneFn = std::function<void(absl::Status)>;

  void Begin(DoneFn started, absl::Duration now) {
    start_done_ = std::move(started);
    begun_ = now;
  }
  // Whether the caller of Start still waits.
  bool starting() const { return start_done_ != nullptr; }
  absl::Duration starting_for(absl::Duration now) const { return now - begun_; }
  // The start has ended with `status`; returns the callback to call.
  DoneFn EndStart(const absl::Status& status) {
    started_ = status.ok();
    return std::exchange(start_done_, nullptr);
  }
  bool started() const { return started_; }

  // The job cannot go on. The first reason is kept.
  void Fail(const absl::Status& why) {
    if (failed_.ok()) failed_ = why;
  }
  const absl::Status& failed() const { return failed_; }

  void End() { ending_ = true; }
  bool ending() const { return ending_; }
  // Ends as a crash would.
  void Abandon(const absl::Status& why) {
    End();
    failed_ = why;
    abandoned_ = true;
  }
  bool abandoned() const { return abandoned_; }

  // `shards`: the phase of the shards.
  Phase phase(Phase shards) const {
    if (ending_) return Phase::kEnding;
    if (!failed_.ok()) return Phase::kFailed;
    return started_ ? shards : Phase::kStarting;
  }

 private:
  bool started_ = false, ending_ = false, abandoned_ = false;
  absl::Status failed_;
  DoneFn start_done_;
  absl::Duration begun_;
};

}  // namespace coxswain::core
