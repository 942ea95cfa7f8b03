#include "coordinator/chaos/schedule.h"

#include <algorithm>

#include "runtime/data/hash.h"

namespace coxswain::chaos {
namespace {

// Which of a fault's random numbers: each has its own, so that a new one changes none of the
// others.
enum Draw : uint64_t { kTime = 1, kTarget = 2, kRestart = 3, kStop = 4 };

uint64_t Bits(uint64_t seed, size_t rule, int64_t number, Draw draw) {
  return data::HashPair(data::HashPair(data::HashPair(seed, rule), static_cast<uint64_t>(number)),
                        draw);
}

// In [0, longest], to the nanosecond.
absl::Duration Uniform(uint64_t bits, absl::Duration longest) {
  const auto n = static_cast<uint64_t>(absl::ToInt64Nanoseconds(longest)) + 1;
  return absl::Nanoseconds(static_cast<int64_t>(data::Bounded(bits, n)));
}

absl::Duration Uniform(uint64_t bits, const DurationRange& range) {
  return range.low + Uniform(bits, range.high - range.low);
}

}  // namespace

FaultStream::FaultStream(const ChaosSpec& spec, int num_ps, int num_workers)
    : spec_(spec), num_ps_(num_ps), num_workers_(num_workers) {
  for (size_t r = 0; r < spec_.faults.size(); ++r) {
    FaultRule& rule = spec_.faults[r];
    // Moved first and sorted then: a rule's faults come by ascending time.
    for (size_t i = 0; i < rule.at.size(); ++i) {
      rule.at[i] += Uniform(Bits(spec_.seed, r, static_cast<int64_t>(i), kTime), 2 * rule.jitter) -
                    rule.jitter;
    }
    std::sort(rule.at.begin(), rule.at.end());
    next_.push_back(Make(r, 0));
  }
}

std::optional<PlannedFault> FaultStream::Make(size_t r, int64_t number) const {
  const FaultRule& rule = spec_.faults[r];
  if (!rule.at_update.empty()) return std::nullopt;
  PlannedFault fault = Plan(r, number);
  if (!rule.at.empty()) {
    if (number >= static_cast<int64_t>(rule.at.size())) return std::nullopt;
    fault.at = rule.at[static_cast<size_t>(number)];
  } else {
    if (rule.count > 0 && number >= rule.count) return std::nullopt;
    fault.at = rule.after + rule.every * (number + 1) +
               Uniform(Bits(spec_.seed, r, number, kTime), 2 * rule.jitter) - rule.jitter;
  }
  fault.at = std::max(fault.at, absl::ZeroDuration());
  return fault;
}

// All but when.
PlannedFault FaultStream::Plan(size_t r, int64_t number) const {
  const FaultRule& rule = spec_.faults[r];
  PlannedFault fault;
  fault.rule = static_cast<int>(r);
  fault.number = number;
  fault.task = rule.task;
  fault.action = rule.action;
  const int tasks = rule.task == TaskKind::kPs       ? num_ps_
                    : rule.task == TaskKind::kWorker ? num_workers_
                                                     : 1;
  const uint64_t target = Bits(spec_.seed, r, number, kTarget);
  fault.index = rule.index >= 0
                    ? rule.index
                    : static_cast<int>(data::Bounded(target, static_cast<uint64_t>(tasks)));
  fault.restart_delay = Uniform(Bits(spec_.seed, r, number, kRestart), rule.restart_delay);
  fault.stop_for = Uniform(Bits(spec_.seed, r, number, kStop), rule.stop_for);
  return fault;
}

std::optional<PlannedFault> FaultStream::Next() {
  size_t first = next_.size();
  for (size_t r = 0; r < next_.size(); ++r) {
    if (next_[r] && (first == next_.size() || next_[r]->at < next_[first]->at)) first = r;
  }
  if (first == next_.size()) return std::nullopt;
  std::optional<PlannedFault> fault = next_[first];
  next_[first] = Make(first, fault->number + 1);
  return fault;
}

std::vector<PlannedFault> FaultStream::AtUpdates() const {
  std::vector<PlannedFault> faults;
  for (size_t r = 0; r < spec_.faults.size(); ++r) {
    const std::vector<int64_t>& updates = spec_.faults[r].at_update;
    for (size_t i = 0; i < updates.size(); ++i) {
      faults.push_back(Plan(r, static_cast<int64_t>(i)));
      faults.back().at_update = updates[i];
    }
  }
  std::stable_sort(faults.begin(), faults.end(), [](const PlannedFault& a, const PlannedFault& b) {
    return a.at_update < b.at_update;
  });
  return faults;
}

std::vector<PlannedFault> MakeSchedule(const ChaosSpec& spec, int num_ps, int num_workers,
                                       absl::Duration until) {
  FaultStream stream(spec, num_ps, num_workers);
  std::vector<PlannedFault> schedule;
  for (auto fault = stream.Next(); fault && fault->at < until; fault = stream.Next()) {
    schedule.push_back(*fault);
  }
  return schedule;
}

}  // namespace coxswain::chaos
