// The score of a probability: log(p / (1 - p)).
#pragma once

#include <algorithm>
#include <cmath>

namespace coxswain::model {

// Finite also for 0 and 1, where a score that can be learned again is as good.
inline double LogOdds(double probability) {
  constexpr double kLeast = 1e-6;
  const double p = std::clamp(probability, kLeast, 1 - kLeast);
  return std::log(p / (1 - p));
}

}  // namespace coxswain::model
