// Adam.
//
//   g += l2 w;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   w -= lr sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps)
//
// Kingma and Ba 2015, the end of section 2; TensorFlow's ResourceApplyAdam. t is the number of this
// update of the shard, not of the row; b1 and b2 are beta1 and beta2. An m below 2^-100 in f32,
// 2^-996 in f64, becomes 0.
//
// It keeps TensorFlow's meaning for tables too: the moments of every row decay, and every row
// moves. That is exactly the dense update with zeros where there is no gradient. It costs a pass
// over all rows of the shard that ever had a gradient, with each update, and the first update after
// a snapshot copies all rows; lazy_adam costs what it touches, and is what tables want.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/rule_numbers.h"
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

// Of update `step` of an optimizer with beta1, beta2, epsilon and l2.
template <typename T>
struct AdamRule : AdamNumbers<T> {
  using Numbers = AdamNumbers<T>;
  using Numbers::lr_t, Numbers::l2, Numbers::b1, Numbers::b2, Numbers::one_minus_b1,
      Numbers::one_minus_b2, Numbers::eps;

  template <typename O>
  AdamRule(const O& o, const OptimizerStep& step)
      : Numbers{.lr_t = static_cast<T>(CorrectedRate(o.beta1, o.beta2, step)),
                .l2 = static_cast<T>(Penalty(o)),
                .b1 = static_cast<T>(o.beta1),
                .b2 = static_cast<T>(o.beta2),
                .one_minus_b1 = static_cast<T>(1 - o.beta1),
                .one_minus_b2 = static_cast<T>(1 - o.beta2),
                .eps = static_cast<T>(o.epsilon)} {}

  explicit AdamRule(const Numbers& numbers) : Numbers(numbers) {}

  // l2, where the optimizer has one.
  template <typename O>
  static double Penalty(const O& o) {
    if constexpr (requires { o.l2; }) {
      return o.l2;
    } else {
      return 0;
    }
  }
  static double CorrectedRate(double beta1, double beta2, const OptimizerStep& step) {
    const double t = static_cast<double>(step.number);
    return step.rate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
  }

  COX_ALWAYS_INLINE void operator()(T g, T& w, T& m, T& v) const {
    // Where there is no gradient moments fall for ever. They would end as denormals: slow, and too
    // coarse to fall any further. Written so that GCC makes vectors of it.
    constexpr T kTiny = std::numeric_limits<T>::min(), kStill = kTiny * (1 << 26);
    g += l2 * w;
    T next_m = b1 * m + one_minus_b1 * g, next_v = b2 * v + one_minus_b2 * (g * g);
    next_m = std::abs(next_m) < kStill ? T{0} : next_m;
    const T least_v = next_m == 0 ? kTiny : T{0};
    next_v = next_v < least_v ? T{0} : next_v;
    m = next_m;
    v = next_v;
    w -= lr_t * next_m / (std::sqrt(next_v) + eps);
  }
};

template <typename O>
OptimizerKey<O> Beta1Key() {
  return {"beta1", &O::beta1, FromBelow(0, 1),
          "decay rate of the moving average of gradients (first moment)"};
}
template <typename O>
OptimizerKey<O> Beta2Key() {
  return {"beta2", &O::beta2, FromBelow(0, 1),
          "decay rate of the moving average of squared gradients (second moment)"};
}
template <typename O>
OptimizerKeys<O> AdamKeys() {
  return {LearningRateKey<O>(), Beta1Key<O>(), Beta2Key<O>(), EpsilonKey<O>(), L2Key<O>()};
}

struct AdamOptimizer : Adam {
  using Parameters = Adam;
  static constexpr char kKind[] = "adam";
  static constexpr char kHelp[] =
      "scales steps by moving averages of the gradients and of their squares; updates all rows of "
      "a table in each step, which is expensive for large tables";
  static constexpr bool kMovesAllRows = true;
  static OptimizerKeys<AdamOptimizer> Keys() { return AdamKeys<AdamOptimizer>(); }
  auto Slots() const { return std::array{OptimizerSlot{"m", 0}, OptimizerSlot{"v", 0}}; }

  template <typename T>
  using Rule = AdamRule<T>;
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {*this, step};
  }
};

}  // namespace coxswain::kernels
