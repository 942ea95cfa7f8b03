// Gradient descent with momentum.
//
//   g += l2 w;  a = mu a + g;  w -= lr a
//   nesterov:                  w -= lr (g + mu a)
//
// Polyak 1964, TensorFlow's ResourceApplyMomentum; nesterov: Sutskever et al. 2013. mu is momentum,
// a the slot `momentum`.
#pragma once

#include <array>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/rule_numbers.h"
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

struct MomentumOptimizer : Momentum {
  using Parameters = Momentum;
  static constexpr char kKind[] = "momentum";
  static constexpr char kHelp[] = "gradient descent with momentum";
  static OptimizerKeys<MomentumOptimizer> Keys() {
    return {LearningRateKey<MomentumOptimizer>(),
            {"momentum", &Momentum::momentum, FromBelow(0, 1),
             "fraction of the previous step that is carried over into the next"},
            {"nesterov", &Momentum::nesterov, "use Nesterov momentum"},
            L2Key<MomentumOptimizer>()};
  }
  auto Slots() const { return std::array{OptimizerSlot{"momentum", 0}}; }

  template <typename T>
  struct Rule : MomentumNumbers<T> {
    using Numbers = MomentumNumbers<T>;
    using Numbers::lr, Numbers::l2, Numbers::mu, Numbers::keep_g, Numbers::keep_a;
    COX_ALWAYS_INLINE void operator()(T g, T& w, T& a) const {
      g += l2 * w;
      a = mu * a + g;
      w -= lr * (keep_g * g + keep_a * a);
    }
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    const T mu = static_cast<T>(momentum);
    return {{.lr = static_cast<T>(step.rate),
             .l2 = static_cast<T>(l2),
             .mu = mu,
             .keep_g = nesterov ? T{1} : T{0},
             .keep_a = nesterov ? mu : T{1}}};
  }
};

}  // namespace coxswain::kernels
