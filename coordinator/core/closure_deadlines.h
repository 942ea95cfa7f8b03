// How long an attempt of a closure may take: a pure state machine, time is passed in. Owned by the
// coordinator's loop.
//
// The time of one step is what counts: from when the attempt was sent, or from its last report, to
// its next report or its end. A worker keeps several closures at once, so this includes that they
// share it.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

struct DeadlineOptions {
  // Of every step; zero: by what steps of the same function have taken, as follows.
  absl::Duration fixed = absl::ZeroDuration();
  // While none has been measured: data may have to be read for the first time, plans to be made.
  absl::Duration first = absl::Minutes(10);
  // Never less than `least`, however quick the others were; else `times_slowest` times the
  // slowest.
  absl::Duration least = absl::Minutes(5);
  double times_slowest = 20;
};

class ClosureDeadlines {
 public:
  explicit ClosureDeadlines(const DeadlineOptions& options) : options_(options) {}

  // Is to be called about every kInterval. What is longer than a few of these between two calls
  // counts as no time: this process stood still, and what came for it meanwhile is unread.
  // `counts`: false while closures cannot go on anyhow.
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  void Tick(absl::Duration now, bool counts);
  // On the clock of the times that count, which begins at zero.
  absl::Duration Clock(absl::Duration now) const;

  // A step of the function took so long.
  void Measure(PlanId plan, absl::Duration step);
  // There is no such function any more.
  void Forget(PlanId plan) { slowest_.erase(plan); }
  // What a step of the function may take in an attempt that comes after `overdue` overdue ones.
  // Unless the time is fixed it doubles, so that one that was too short for this closure is not so
  // again.
  absl::Duration Allowed(PlanId plan, int overdue) const;

 private:
  const DeadlineOptions options_;
  absl::Duration counted_;  // until the last tick
  absl::Duration last_tick_ = absl::InfiniteDuration();
  bool counts_ = true;
  absl::flat_hash_map<PlanId, absl::Duration> slowest_;  // of late
};

}  // namespace coxswain::core
