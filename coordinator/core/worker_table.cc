#include "coordinator/core/worker_table.h"

#include <algorithm>
#include <utility>

namespace coxswain::core {
namespace {

// The wait before another set-up doubles with each loss that follows, at most this number of times.
constexpr absl::Duration kFirstWait = absl::Milliseconds(50);
constexpr int kMostWaitDoublings = 5;
// A worker on which one closure after the other takes too long, and none ends, is set up anew;
// after a while that doubles each time.
constexpr int kMostTimeouts = 2;
constexpr absl::Duration kFirstRest = absl::Seconds(1), kLongestRest = absl::Minutes(5);
constexpr int kMostRestDoublings = 10;

}  // namespace

void WorkerTable::Replace(int worker) {
  At(worker) = Worker{};
  At(worker).is_new = true;
  SetUp(worker);
}

void WorkerTable::LetGo(int worker) {
  At(worker).ready = false;
  SetUp(worker);
}

WorkerTable::Arrival WorkerTable::Ready(int worker, Generation generation, absl::Duration now) {
  Worker& w = At(worker);
  w.ready = true;
  w.new_streams = false;
  Arrival arrival;
  // After a recovery it is too late to say what its way was lost by.
  std::vector<ClosureId> broken = std::exchange(w.broken, {});
  if (w.broken_generation == generation) arrival.broken = std::move(broken);
  if (w.lost_since) {
    arrival.away = now - *std::exchange(w.lost_since, std::nullopt);
  } else {
    arrival.joined = std::exchange(w.is_new, false);
  }
  return arrival;
}

bool WorkerTable::Lost(int worker, absl::Duration now) {
  LetGo(worker);
  Worker& w = At(worker);
  w.broken.clear();
  if (w.lost_since) return false;
  w.lost_since = now;
  return true;
}

WorkerTable::LostWay WorkerTable::WayLost(int worker, const std::vector<ClosureId>& running,
                                          Generation generation) {
  Worker& w = At(worker);
  w.broken.insert(w.broken.end(), running.begin(), running.end());
  w.broken_generation = generation;
  w.ready = false;
  const int before = w.ways_lost++;
  return {w.ways_lost, (before & (before + 1)) == 0,
          kFirstWait * (1 << std::min(before, kMostWaitDoublings))};
}

std::optional<WorkerTable::Rest> WorkerTable::TimedOut(int worker, absl::Duration longest) {
  Worker& w = At(worker);
  ++w.timeouts;
  if (w.timeouts < kMostTimeouts || !w.ready) return std::nullopt;
  w.ready = false;
  w.new_streams = true;
  const absl::Duration rest =
      kFirstRest * (1 << std::min(w.timeouts - kMostTimeouts, kMostRestDoublings));
  return Rest{w.timeouts, std::max(kFirstWait, std::min({kLongestRest, longest, rest}))};
}

}  // namespace coxswain::core
