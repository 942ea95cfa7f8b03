// The one source of chance of a simulated world. The same seed gives the same numbers everywhere.
#pragma once

#include <cmath>
#include <cstdint>

#include "absl/time/time.h"

namespace coxswain::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // SplitMix64.
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  double Real() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // In [0, n), n > 0.
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  // In [low, high].
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool Chance(double p) { return Real() < p; }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return absl::Nanoseconds(
        Between(absl::ToInt64Nanoseconds(low), absl::ToInt64Nanoseconds(high)));
  }
  // Mostly short, sometimes several times the mean.
  absl::Duration Exponential(absl::Duration mean) {
    return absl::Nanoseconds(static_cast<int64_t>(
        -std::log(1 - Real()) * static_cast<double>(absl::ToInt64Nanoseconds(mean))));
  }

 private:
  uint64_t state_;
};

}  // namespace coxswain::sim
