#include "coordinator/generate/zipf.h"

#include <algorithm>
#include <cmath>

namespace coxswain::generate {
namespace {

// (e^x - 1) / x and log(1 + x) / x, also near 0.
double ExpRatio(double x) { return std::fabs(x) < 1e-8 ? 1 + x / 2 : std::expm1(x) / x; }
double LogRatio(double x) { return std::fabs(x) < 1e-8 ? 1 - x / 2 : std::log1p(x) / x; }

}  // namespace

double RowRandom::Normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  // Box and Muller.
  const double radius = std::sqrt(-2 * std::log(Uniform()));
  const double angle = 6.283185307179586 * Uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

Zipf::Zipf(int64_t count, double exponent)
    : count_(static_cast<double>(count)), exponent_(exponent) {
  low_ = Integral(1.5) - 1;
  high_ = Integral(count_ + 0.5);
  sure_ = 2 - InverseIntegral(Integral(2.5) - Density(2));
}

double Zipf::Integral(double x) const {
  const double log_x = std::log(x);
  return ExpRatio((1 - exponent_) * log_x) * log_x;
}

double Zipf::InverseIntegral(double y) const {
  const double scaled = std::max((1 - exponent_) * y, -1.0);
  return std::exp(LogRatio(scaled) * y);
}

double Zipf::Density(double x) const { return std::exp(-exponent_ * std::log(x)); }

int64_t Zipf::Draw(RowRandom* random) const {
  if (count_ < 2) return 0;
  while (true) {
    const double y = high_ + random->Uniform() * (low_ - high_);
    const double x = InverseIntegral(y);
    const double rank = std::clamp(std::round(x), 1.0, count_);
    if (rank - x <= sure_ || y >= Integral(rank + 0.5) - Density(rank)) {
      return static_cast<int64_t>(rank) - 1;
    }
  }
}

}  // namespace coxswain::generate
