// How fast a job has been lately: a mean over all of it says little after a stall, or when the job
// goes on on other machines.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace coxswain::cli {

// Thread model: one thread at a time.
class RecentRate {
 public:
  struct Reading {
    double seconds = 0;  // of training, pauses left out
    int64_t steps = 0, examples = 0;
  };
  struct Rate {
    double steps = 0, examples = 0;  // per second
  };

  // Readings come in the order of their seconds. What is recent is the last ten seconds, or since
  // the first reading, of which there is no rate.
  std::optional<Rate> Add(const Reading& now) {
    constexpr double kWindow = 10;
    while (readings_.size() > 1 && readings_[1].seconds <= now.seconds - kWindow) {
      readings_.pop_front();
    }
    // A few seconds are said by some dozen readings.
    constexpr double kApart = kWindow / 50;
    if (readings_.empty() || now.seconds - readings_.back().seconds >= kApart) {
      readings_.push_back(now);
    }
    const Reading& then = readings_.front();
    const double seconds = now.seconds - then.seconds;
    if (!(seconds > 0)) return std::nullopt;
    return Rate{static_cast<double>(now.steps - then.steps) / seconds,
                static_cast<double>(now.examples - then.examples) / seconds};
  }

 private:
  std::deque<Reading> readings_;
};

}  // namespace coxswain::cli
