// Numbers of reports.
#pragma once

#include <cmath>

namespace coxswain {

// To this number of digits behind the point.
inline double Round(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

}  // namespace coxswain
