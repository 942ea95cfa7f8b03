// RMSProp: each weight has its own learning rate, by a moving mean of its squared gradients. Unlike
// adagrad's, the rate does not fall for ever.
//
//   g += l2 w;  v = rho v + (1 - rho) g^2;  w -= lr g / (sqrt(v) + eps)
//
// Tieleman and Hinton 2012 (lecture 6.5 of their course). epsilon is outside of the root as in
// PyTorch; TensorFlow's ResourceApplyRMSProp has it under the root. v is the slot `mean_square`.
// For a table, only the rows that a step touches move, and v of the others does not decay, as in
// TensorFlow's sparse update.
#pragma once

#include <array>
#include <cmath>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/rule_numbers.h"
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

struct RmspropOptimizer : Rmsprop {
  using Parameters = Rmsprop;
  static constexpr char kKind[] = "rmsprop";
  static constexpr char kHelp[] =
      "like `adagrad`, but with a moving average of the squared gradients, so that steps do not "
      "shrink for ever";
  static OptimizerKeys<RmspropOptimizer> Keys() {
    return {LearningRateKey<RmspropOptimizer>(),
            {"rho", &Rmsprop::rho, FromBelow(0, 1),
             "decay rate of the moving average of squared gradients"},
            EpsilonKey<RmspropOptimizer>(),
            L2Key<RmspropOptimizer>()};
  }
  auto Slots() const { return std::array{OptimizerSlot{"mean_square", 0}}; }

  template <typename T>
  struct Rule : RmspropNumbers<T> {
    using Numbers = RmspropNumbers<T>;
    using Numbers::lr, Numbers::l2, Numbers::eps, Numbers::rho;
    COX_ALWAYS_INLINE void operator()(T g, T& w, T& v) const {
      g += l2 * w;
      v = rho * v + (T{1} - rho) * g * g;
      w -= lr * g / (std::sqrt(v) + eps);
    }
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {{.lr = static_cast<T>(step.rate),
             .l2 = static_cast<T>(l2),
             .eps = static_cast<T>(epsilon),
             .rho = static_cast<T>(rho)}};
  }
};

}  // namespace coxswain::kernels
