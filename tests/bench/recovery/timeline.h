// When closures completed, and what the coordinator said meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"

namespace coxswain {

// Times are seconds since the timeline was made. Closures are told by numbers from 0, which their
// tickets carry. Thread-safe.
class Timeline {
 public:
  // `in_flight`: how many closures the cluster has under way while all workers are there.
  explicit Timeline(int64_t in_flight) : in_flight_(in_flight) {}

  double Now() const;

  // Gives the next closure its ticket; waits while `most` of them are not complete. Nothing:
  // closed.
  std::optional<Ticket> Next(int64_t most);
  void Close();
  // For ClusterCoordinator::set_observer.
  void Completed(const Ticket& ticket, const absl::Status& status);
  // For ClusterOptions::on_event.
  void Event(const ClusterEvent& event);

  int64_t scheduled() const;
  // The first error of a closure.
  absl::Status error() const;
  // What was under way when a worker was lost last: closures start in order, so these are the
  // oldest that were not complete.
  std::set<int64_t> in_flight_at_loss() const;
  // When closures completed, ascending.
  std::vector<double> completions() const;
  // When these closures completed, ascending; those that did.
  std::vector<double> CompletionsOf(const std::set<int64_t>& closures) const;

  // Waits for the first event of this kind after `since`: its time. Nothing: not in time.
  std::optional<double> AwaitEvent(ClusterEvent::Kind kind, double since, double timeout) const;
  // Waits for the first completion after `since`.
  std::optional<double> AwaitCompletion(double since, double timeout) const;
  // Waits until then.
  void AwaitTime(double time) const;

 private:
  std::optional<double> FirstEvent(ClusterEvent::Kind kind, double since) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t in_flight_;
  const absl::Time begin_ = absl::Now();
  mutable absl::Mutex mu_;
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  std::set<int64_t> open_ ABSL_GUARDED_BY(mu_);
  std::set<int64_t> at_loss_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<double, int64_t>> completed_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<double, ClusterEvent>> events_ ABSL_GUARDED_BY(mu_);
};

// Completions in [begin, end) a second.
double RateBetween(const std::vector<double>& completions, double begin, double end);
// Completions in windows of `width` from `begin` to `end`; a last, shorter window is left out.
std::vector<int64_t> Bins(const std::vector<double>& completions, double begin, double end,
                          double width);
// The longest time without a completion between `begin` and `end`.
double LongestGap(const std::vector<double>& completions, double begin, double end);
// The end of the first window of `width`, among those that begin at `from` or later, that has at
// least `wanted` completions. Nothing: none does before `end`.
std::optional<double> FirstFullWindow(const std::vector<double>& completions, double from,
                                      double end, double width, double wanted);

}  // namespace coxswain
