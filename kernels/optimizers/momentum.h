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
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

struct MomentumOptimizer : Momentum {
  using Parameters = Momentum;
  static constexpr char kKind[] = "momentum";
  static constexpr char kHelp[] = "goes on along the gradients before";
  static OptimizerKeys<MomentumOptimizer> Keys() {
    return {
        LearningRateKey<MomentumOptimizer>(),
        {"momentum", &Momentum::momentum, FromBelow(0, 1), "share of the last step that goes on"},
        {"nesterov", &Momentum::nesterov, "Nesterov's momentum"},
        L2Key<MomentumOptimizer>()};
  }
  auto Slots() const { return std::array{OptimizerSlot{"momentum", 0}}; }

  template <typename T>
  struct Rule {
    T lr, l2, mu, keep_g, keep_a;  // the step is lr * (keep_g * g + keep_a * a)
    COX_ALWAYS_INLINE void operator()(T g, T& w, T& a) const {
      g += l2 * w;
      a = mu * a + g;
      w -= lr * (keep_g * g + keep_a * a);
    }
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    const T mu = static_cast<T>(momentum);
    return {static_cast<T>(step.rate), static_cast<T>(l2), mu, nesterov ? T{1} : T{0},
            nesterov ? mu : T{1}};
  }
};

}  // namespace coxswain::kernels
