// AdamW: Adam with decoupled weight decay.
//
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   w -= lr sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps) + lr weight_decay w
//
// Loshchilov and Hutter 2019, algorithm 2; Keras' AdamW. The decay has the rate that the schedule
// gives, and is not scaled by the moments, as an L2 penalty would be. Like lazy_adam.h it moves
// only the rows that a step touches: a row of a table decays when it has a gradient.
#pragma once

#include <array>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/adam.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/rule_numbers.h"
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

struct AdamWOptimizer : AdamW {
  using Parameters = AdamW;
  static constexpr char kKind[] = "adamw";
  static constexpr char kHelp[] =
      "`lazy_adam` with weight decay that is not part of the gradient, so that the moments do not "
      "scale it";
  static OptimizerKeys<AdamWOptimizer> Keys() {
    return {LearningRateKey<AdamWOptimizer>(),
            Beta1Key<AdamWOptimizer>(),
            Beta2Key<AdamWOptimizer>(),
            EpsilonKey<AdamWOptimizer>(),
            {"weight_decay", &AdamWOptimizer::weight_decay, AtLeast(0),
             "share of itself, times the learning rate, that each weight loses with an update; of "
             "a table the rows that a step updates"}};
  }
  auto Slots() const { return std::array{OptimizerSlot{"m", 0}, OptimizerSlot{"v", 0}}; }

  template <typename T>
  struct Rule : AdamWNumbers<T> {
    using Numbers = AdamWNumbers<T>;
    Rule(const AdamWOptimizer& o, const OptimizerStep& step)
        : AdamWNumbers<T>{.adam = AdamRule<T>(o, step),
                          .decay = static_cast<T>(step.rate * o.weight_decay)} {}

    COX_ALWAYS_INLINE void operator()(T g, T& w, T& m, T& v) const {
      const T lost = this->decay * w;
      AdamRule<T>(this->adam)(g, w, m, v);
      w -= lost;
    }
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {*this, step};
  }
};

}  // namespace coxswain::kernels
