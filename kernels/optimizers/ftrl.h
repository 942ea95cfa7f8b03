// Follow the regularised leader, proximal.
//
//   n' = n + g^2;  z += g - (n'^-p - n^-p) / lr * w;
//   w = |z| <= l1 ? 0 : (sign(z) l1 - z) / (n'^-p / lr + 2 l2);  n = n'
//
// McMahan et al. 2013; TensorFlow's ResourceApplyFtrl. n is the slot `accumulator`, z `linear`; p
// is learning_rate_power. l2 is the penalty in the formula, not weight decay as elsewhere.
//
// Where a schedule changes the rate, lr is that of the update, as in TensorFlow: n and z keep what
// they have, so a row's next update also scales what it learnt before. At a rate of 0 it stays as
// it is.
#pragma once

#include <array>
#include <cmath>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/rule_numbers.h"
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

struct FtrlOptimizer : Ftrl {
  using Parameters = Ftrl;
  static constexpr char kKind[] = "ftrl";
  static constexpr char kHelp[] =
      "follow the regularised leader, for wide models: with `l1` it sets unimportant weights to 0";
  static OptimizerKeys<FtrlOptimizer> Keys() {
    return {LearningRateKey<FtrlOptimizer>(),
            {"l1", &Ftrl::l1, AtLeast(0), "L1 penalty, which sets unimportant weights to 0"},
            {"learning_rate_power", &Ftrl::learning_rate_power, AtMost(0),
             "the learning rate is multiplied by the sum of squared gradients to this power"},
            {"initial_accumulator", &Ftrl::initial_accumulator, AtLeast(0),
             "initial value of the sum of squared gradients"},
            L2Key<FtrlOptimizer>()};
  }
  auto Slots() const {
    return std::array{OptimizerSlot{"accumulator", initial_accumulator},
                      OptimizerSlot{"linear", 0}};
  }

  // A NaN in z stays one in w: "not greater" would turn it into a silent zero.
  template <typename T>
  static COX_ALWAYS_INLINE T Weight(T z, T quadratic, T l1) {
    const T moved = (std::copysign(l1, z) - z) / quadratic;
    return std::abs(z) <= l1 ? T{0} : moved;
  }

  template <typename T>
  struct RootRule {  // learning_rate_power -0.5
    T inverse_lr, l1, twice_l2;
    COX_ALWAYS_INLINE void operator()(T g, T& w, T& n, T& z) const {
      const T next = n + g * g;
      const T root = std::sqrt(next);
      z += g - (root - std::sqrt(n)) * inverse_lr * w;
      n = next;
      w = Weight(z, root * inverse_lr + twice_l2, l1);
    }
  };

  template <typename T>
  struct PowerRule {  // any other power; pow makes it several times slower
    T inverse_lr, l1, twice_l2, minus_power;
    COX_ALWAYS_INLINE void operator()(T g, T& w, T& n, T& z) const {
      const T next = n + g * g;
      const T root = std::pow(next, minus_power);
      z += g - (root - std::pow(n, minus_power)) * inverse_lr * w;
      n = next;
      w = Weight(z, root * inverse_lr + twice_l2, l1);
    }
  };

  template <typename T>
  struct StillRule {  // a rate of 0: the row is updated, its numbers stay
    COX_ALWAYS_INLINE void operator()(T, T&, T&, T&) const {}
  };

  template <typename T>
  struct Rule : FtrlNumbers<T> {
    using Numbers = FtrlNumbers<T>;
    using Numbers::inverse_lr, Numbers::l1, Numbers::twice_l2, Numbers::minus_power;

    template <typename Run>
    COX_ALWAYS_INLINE void Choose(const Run& run) const {
      if (std::isinf(inverse_lr)) {
        run(StillRule<T>{});
      } else if (square_root) {
        run(RootRule<T>{inverse_lr, l1, twice_l2});
      } else {
        run(PowerRule<T>{inverse_lr, l1, twice_l2, minus_power});
      }
    }

    bool square_root;
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {{.inverse_lr = static_cast<T>(1 / step.rate),
             .l1 = static_cast<T>(l1),
             .twice_l2 = static_cast<T>(2 * l2),
             .minus_power = static_cast<T>(-learning_rate_power)},
            learning_rate_power == -0.5};
  }
};

}  // namespace coxswain::kernels
