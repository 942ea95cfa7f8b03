#include "tests/bench/recovery/timeline.h"

#include <algorithm>
#include <cmath>

#include "absl/time/clock.h"

namespace coxswain {

double Timeline::Now() const { return absl::ToDoubleSeconds(absl::Now() - begin_); }

std::optional<Ticket> Timeline::Next(int64_t most) {
  absl::MutexLock lock(&mu_);
  const auto room = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return closed_ || static_cast<int64_t>(open_.size()) < most;
  };
  mu_.Await(absl::Condition(&room));
  if (closed_) return std::nullopt;
  Ticket ticket;
  // A ticket of no examples: there is no data set.
  ticket.begin = ticket.end = next_;
  open_.insert(next_++);
  return ticket;
}

void Timeline::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

void Timeline::Completed(const Ticket& ticket, const absl::Status& status) {
  const double now = Now();
  absl::MutexLock lock(&mu_);
  open_.erase(ticket.begin);
  if (status.ok()) {
    completed_.emplace_back(now, ticket.begin);
  } else if (error_.ok()) {
    error_ = status;
  }
}

void Timeline::Event(const ClusterEvent& event) {
  const double now = Now();
  absl::MutexLock lock(&mu_);
  events_.emplace_back(now, event);
  if (event.kind != ClusterEvent::Kind::kWorkerLost) return;
  at_loss_.clear();
  for (const int64_t closure : open_) {
    if (static_cast<int64_t>(at_loss_.size()) == in_flight_) break;
    at_loss_.insert(at_loss_.end(), closure);
  }
}

int64_t Timeline::scheduled() const {
  absl::MutexLock lock(&mu_);
  return next_;
}

absl::Status Timeline::error() const {
  absl::MutexLock lock(&mu_);
  return error_;
}

std::set<int64_t> Timeline::in_flight_at_loss() const {
  absl::MutexLock lock(&mu_);
  return at_loss_;
}

std::vector<double> Timeline::completions() const {
  absl::MutexLock lock(&mu_);
  std::vector<double> times;
  times.reserve(completed_.size());
  for (const auto& [time, closure] : completed_) times.push_back(time);
  return times;
}

std::vector<double> Timeline::CompletionsOf(const std::set<int64_t>& closures) const {
  absl::MutexLock lock(&mu_);
  std::vector<double> times;
  for (const auto& [time, closure] : completed_) {
    if (closures.count(closure) > 0) times.push_back(time);
  }
  return times;
}

std::optional<double> Timeline::FirstEvent(ClusterEvent::Kind kind, double since) const {
  for (const auto& [time, event] : events_) {
    if (event.kind == kind && time >= since) return time;
  }
  return std::nullopt;
}

std::optional<double> Timeline::AwaitEvent(ClusterEvent::Kind kind, double since,
                                           double timeout) const {
  absl::MutexLock lock(&mu_);
  const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return FirstEvent(kind, since).has_value();
  };
  mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(timeout));
  return FirstEvent(kind, since);
}

std::optional<double> Timeline::AwaitCompletion(double since, double timeout) const {
  absl::MutexLock lock(&mu_);
  const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !completed_.empty() && completed_.back().first >= since;
  };
  if (!mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(timeout))) return std::nullopt;
  const auto first =
      std::lower_bound(completed_.begin(), completed_.end(), std::pair<double, int64_t>(since, -1));
  return first->first;
}

void Timeline::AwaitTime(double time) const {
  absl::MutexLock lock(&mu_);
  const auto never = [] { return false; };
  mu_.AwaitWithTimeout(absl::Condition(&never), absl::Seconds(time - Now()));
}

namespace {

int64_t CountBetween(const std::vector<double>& completions, double begin, double end) {
  return std::lower_bound(completions.begin(), completions.end(), end) -
         std::lower_bound(completions.begin(), completions.end(), begin);
}

}  // namespace

double RateBetween(const std::vector<double>& completions, double begin, double end) {
  return static_cast<double>(CountBetween(completions, begin, end)) / (end - begin);
}

std::vector<int64_t> Bins(const std::vector<double>& completions, double begin, double end,
                          double width) {
  std::vector<int64_t> bins;
  for (int i = 1; begin + i * width <= end; ++i) {
    bins.push_back(CountBetween(completions, begin + (i - 1) * width, begin + i * width));
  }
  return bins;
}

double LongestGap(const std::vector<double>& completions, double begin, double end) {
  double last = begin, longest = 0;
  for (auto it = std::lower_bound(completions.begin(), completions.end(), begin);
       it != completions.end() && *it < end; ++it) {
    longest = std::max(longest, *it - last);
    last = *it;
  }
  return std::max(longest, end - last);
}

std::optional<double> FirstFullWindow(const std::vector<double>& completions, double from,
                                      double end, double width, double wanted) {
  // A window that is full ends with the completion that fills it, at the earliest after `width`.
  const int64_t count = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(wanted)));
  const auto first = std::lower_bound(completions.begin(), completions.end(), from);
  const int64_t begin = first - completions.begin();
  for (int64_t i = begin + count - 1; i < static_cast<int64_t>(completions.size()); ++i) {
    const double filled = completions[static_cast<size_t>(i)];
    if (filled >= end) break;
    const double opened = completions[static_cast<size_t>(i - count + 1)];
    if (filled - opened < width) return std::max(filled, from + width);
  }
  return std::nullopt;
}

}  // namespace coxswain
