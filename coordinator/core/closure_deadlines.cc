#include "coordinator/core/closure_deadlines.h"

#include <algorithm>

namespace coxswain::core {
namespace {

constexpr absl::Duration kMostPerTick = absl::Seconds(3);
// What is left of the slowest step's time when the next step was quicker.
constexpr double kMemory = 0.99;
constexpr int kMostDoublings = 10;

}  // namespace

void ClosureDeadlines::Tick(absl::Duration now, bool counts) {
  counted_ = Clock(now);
  last_tick_ = now;
  counts_ = counts;
}

absl::Duration ClosureDeadlines::Clock(absl::Duration now) const {
  if (!counts_ || now <= last_tick_) return counted_;
  return counted_ + std::min(now - last_tick_, kMostPerTick);
}

void ClosureDeadlines::Measure(PlanId plan, absl::Duration step) {
  absl::Duration& slowest = slowest_[plan];
  slowest = std::max(step, slowest * kMemory);
}

absl::Duration ClosureDeadlines::Allowed(PlanId plan, int overdue) const {
  if (options_.fixed > absl::ZeroDuration()) return options_.fixed;
  const auto it = slowest_.find(plan);
  const absl::Duration once = it == slowest_.end()
                                  ? options_.first
                                  : std::max(options_.least, it->second * options_.times_slowest);
  return once * (int64_t{1} << std::min(overdue, kMostDoublings));
}

}  // namespace coxswain::core
