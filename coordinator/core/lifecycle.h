// From a coordinator's start to its end; see phase.h for what lies between. Pure. Owned by the
// coordinator's loop.
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
  // Whoever started it waits for that.
  bool starting() const { return start_done_ != nullptr; }
  absl::Duration starting_for(absl::Duration now) const { return now - begun_; }
  // It has come to this; returns who is to be told.
  DoneFn EndStart(const absl::Status& status) {
    started_ = status.ok();
    return std::exchange(start_done_, nullptr);
  }
  bool started() const { return started_; }

  // The job cannot go on. The first reason stays.
  void Fail(const absl::Status& why) {
    if (failed_.ok()) failed_ = why;
  }
  const absl::Status& failed() const { return failed_; }

  void End() { ending_ = true; }
  bool ending() const { return ending_; }
  // As a crash would.
  void Abandon(const absl::Status& why) {
    End();
    failed_ = why;
    abandoned_ = true;
  }
  bool abandoned() const { return abandoned_; }

  // `shards`: what they are about.
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
