// Gradient descent.
//
//   g += l2 w;  w -= lr g
//
// TensorFlow's ResourceApplyGradientDescent. w weight, g gradient, lr learning rate.
#pragma once

#include <array>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/rule_numbers.h"
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

struct SgdOptimizer : Sgd {
  using Parameters = Sgd;
  static constexpr char kKind[] = "sgd";
  static constexpr char kHelp[] =
      "stochastic gradient descent, which keeps no state beside the weights";
  static OptimizerKeys<SgdOptimizer> Keys() {
    return {LearningRateKey<SgdOptimizer>(), L2Key<SgdOptimizer>()};
  }
  std::array<OptimizerSlot, 0> Slots() const { return {}; }

  template <typename T>
  struct Rule : SgdNumbers<T> {
    using Numbers = SgdNumbers<T>;
    using Numbers::lr, Numbers::l2;
    COX_ALWAYS_INLINE void operator()(T g, T& w) const { w -= lr * (g + l2 * w); }
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {{.lr = static_cast<T>(step.rate), .l2 = static_cast<T>(l2)}};
  }
};

}  // namespace coxswain::kernels
