// What a server counts, as Prometheus reads it.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace coxswain::serve {

class ServeMetrics {
 public:
  // A request for a prediction is over; `status`: of HTTP.
  void CountPrediction(int status, int64_t rows, absl::Duration took);

  // The text format. `steps`: of the model that answers.
  std::string Text(int64_t steps) const;

 private:
  // Upper bounds of the histogram's buckets, in seconds.
  static constexpr std::array<double, 12> kBounds = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                     0.05,   0.1,   0.2,   0.5,   1,    5};

  std::atomic<uint64_t> done_{0}, wrong_{0}, refused_{0}, failed_{0}, rows_{0};
  std::array<std::atomic<uint64_t>, kBounds.size()> took_{};  // each of its bucket alone
  std::atomic<uint64_t> microseconds_{0};
};

}  // namespace coxswain::serve
