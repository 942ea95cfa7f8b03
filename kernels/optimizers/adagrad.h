// Adagrad: each weight has a rate of its own, which falls with the squares of its gradients.
//
//   g += l2 w;  a += g^2;  w -= lr g / (sqrt(a) + eps)
//
// Duchi et al. 2011; TensorFlow's ResourceApplyAdagradV2. a is the slot `accumulator`.
#pragma once

#include <array>
#include <cmath>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/rule_numbers.h"
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

struct AdagradOptimizer : Adagrad {
  using Parameters = Adagrad;
  static constexpr char kKind[] = "adagrad";
  static constexpr char kHelp[] =
      "each weight's step is scaled down by the squares of its past gradients";
  static OptimizerKeys<AdagradOptimizer> Keys() {
    return {LearningRateKey<AdagradOptimizer>(),
            {"initial_accumulator", &Adagrad::initial_accumulator, AtLeast(0),
             "initial value of the sum of squared gradients"},
            EpsilonKey<AdagradOptimizer>(),
            L2Key<AdagradOptimizer>()};
  }
  auto Slots() const { return std::array{OptimizerSlot{"accumulator", initial_accumulator}}; }

  template <typename T>
  struct Rule : AdagradNumbers<T> {
    using Numbers = AdagradNumbers<T>;
    using Numbers::lr, Numbers::l2, Numbers::eps;
    COX_ALWAYS_INLINE void operator()(T g, T& w, T& a) const {
      g += l2 * w;
      a += g * g;
      w -= lr * g / (std::sqrt(a) + eps);
    }
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {{.lr = static_cast<T>(step.rate),
             .l2 = static_cast<T>(l2),
             .eps = static_cast<T>(epsilon)}};
  }
};

}  // namespace coxswain::kernels
