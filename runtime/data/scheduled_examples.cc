#include "runtime/data/scheduled_examples.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace coxswain::data {

void ScheduledExamples::Add(const Ticket& ticket) {
  if (ticket.part != Part::kTraining || ticket.epoch < first_epoch_) return;
  if (ticket.begin < 0 || ticket.end <= ticket.begin) return;
  Ranges& ranges = epochs_[ticket.epoch];
  int64_t begin = ticket.begin, end = ticket.end;
  // All that it meets becomes one with it.
  auto it = ranges.upper_bound(begin);
  if (it != ranges.begin() && std::prev(it)->second >= begin) --it;
  while (it != ranges.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = ranges.erase(it);
    --count_;
  }
  ranges.emplace_hint(it, begin, end);
  ++count_;
  Bound();
}

void ScheduledExamples::Bound() {
  while (count_ > kMostRanges) {
    const auto oldest = epochs_.begin();
    if (epochs_.size() > 1) {
      count_ -= oldest->second.size();
      first_epoch_ = oldest->first + 1;
      epochs_.erase(oldest);
      continue;
    }
    const auto first = oldest->second.begin();
    const auto second = std::next(first);
    first->second = second->second;
    oldest->second.erase(second);
    --count_;
  }
}

void ScheduledExamples::Remove(const Ticket& ticket) {
  const auto epoch = epochs_.find(ticket.epoch);
  if (ticket.part != Part::kTraining || epoch == epochs_.end() || ticket.end <= ticket.begin) {
    return;
  }
  Ranges& ranges = epoch->second;
  auto it = ranges.upper_bound(ticket.begin);
  if (it != ranges.begin() && std::prev(it)->second > ticket.begin) --it;
  while (it != ranges.end() && it->first < ticket.end) {
    const auto [begin, end] = *it;
    it = ranges.erase(it);
    --count_;
    if (begin < ticket.begin) ranges.emplace(begin, ticket.begin), ++count_;
    if (end > ticket.end) ranges.emplace(ticket.end, end), ++count_;
  }
  if (ranges.empty()) epochs_.erase(epoch);
}

std::pair<int64_t, int64_t> ScheduledExamples::NextFree(int64_t epoch, int64_t begin,
                                                        int64_t end) const {
  if (epoch < first_epoch_) return {end, end};
  const auto found = epochs_.find(epoch);
  if (found == epochs_.end()) return {std::min(begin, end), end};
  auto it = found->second.upper_bound(begin);
  if (it != found->second.begin() && std::prev(it)->second > begin) begin = std::prev(it)->second;
  if (begin >= end) return {end, end};
  // Ranges do not meet: what follows is free.
  return {begin, it == found->second.end() ? end : std::min(end, it->first)};
}

std::vector<ScheduledExamples::Range> ScheduledExamples::ranges() const {
  std::vector<Range> all;
  all.reserve(count_);
  for (const auto& [epoch, ranges] : epochs_) {
    for (const auto& [begin, end] : ranges) all.push_back({epoch, begin, end});
  }
  return all;
}

absl::StatusOr<ScheduledExamples> ScheduledExamples::FromRanges(int64_t first_epoch,
                                                                const std::vector<Range>& ranges) {
  if (first_epoch < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a first epoch of ", first_epoch));
  }
  if (ranges.size() > kMostRanges) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted at most ", kMostRanges, " ranges, found ", ranges.size()));
  }
  ScheduledExamples scheduled;
  scheduled.first_epoch_ = first_epoch;
  const Range* last = nullptr;
  for (const Range& r : ranges) {
    const bool behind =
        last == nullptr || r.epoch > last->epoch || (r.epoch == last->epoch && r.begin > last->end);
    if (r.epoch < first_epoch || r.begin < 0 || r.end <= r.begin || !behind) {
      return absl::InvalidArgumentError(absl::StrCat(
          "wanted ranges from epoch ", first_epoch, " on, ascending, with gaps between ",
          "them; found [", r.begin, ", ", r.end, ") of epoch ", r.epoch));
    }
    scheduled.epochs_[r.epoch].emplace(r.begin, r.end);
    ++scheduled.count_;
    last = &r;
  }
  return scheduled;
}

}  // namespace coxswain::data
