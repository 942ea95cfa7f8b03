// How long something takes that is done again and again, for who must decide where to do it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace coxswain {

// The slowest of the last times, which is forgotten by and by. What took a little longer once, and
// not the time before, does not count: something else may have had the processor. Thread-safe,
// without locks: of two threads that add at the same time, one may be overlooked.
class Pace {
 public:
  void Add(absl::Duration took) {
    const int64_t now = std::max<int64_t>(1, absl::ToInt64Nanoseconds(took));
    const int64_t last = last_.exchange(now, std::memory_order_relaxed);
    const int64_t counts = last == 0 || now > kSurely ? now : std::min(now, last);
    const int64_t before = slowest_.load(std::memory_order_relaxed);
    const int64_t after = std::max(counts, before - before / kForgets);
    if (after != before) slowest_.store(after, std::memory_order_relaxed);
  }
  // Infinite when it was never done.
  absl::Duration expected() const {
    const int64_t slowest = slowest_.load(std::memory_order_relaxed);
    return slowest == 0 ? absl::InfiniteDuration() : absl::Nanoseconds(slowest);
  }

 private:
  static constexpr int64_t kForgets = 16;         // a part of it each time
  static constexpr int64_t kSurely = 50'000'000;  // nanoseconds: it was not only interrupted
  std::atomic<int64_t> slowest_{0};               // nanoseconds; 0: never done
  std::atomic<int64_t> last_{0};
};

// What a thread may do beside its own work, such as reading a connection: what takes longer goes
// elsewhere.
constexpr absl::Duration kBorrowedTime = absl::Milliseconds(1);

}  // namespace coxswain
