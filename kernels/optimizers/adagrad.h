// Adagrad: each weight has a rate of its own, which falls with the squares of its gradients.
//
//   g += l2 w;  a += g^2;  w -= lr g / (sqrt(a) + eps)
//
// Duchi et al. 2011; TensorFlow's ResourceApplyAdagradV2. a is the slot `accumulator`.
#pragma once

#include <array>
#include <cmath>

#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "runtime/base/multiversion.h"

namespace coxswain {

struct Adagrad {
  double learning_rate = 0.05;
  double initial_accumulator = 0.1;
  double epsilon = 1e-8;
  double l2 = 0;

  static constexpr char kKind[] = "adagrad";
  static constexpr char kHelp[] = "weights that have moved much take smaller steps";
  static OptimizerKeys<Adagrad> Keys() {
    return {LearningRateKey<Adagrad>(),
            {"initial_accumulator", &Adagrad::initial_accumulator, AtLeast(0),
             "where the sum of squared gradients begins"},
            EpsilonKey<Adagrad>(),
            L2Key<Adagrad>()};
  }
  auto Slots() const { return std::array{OptimizerSlot{"accumulator", initial_accumulator}}; }

  template <typename T>
  struct Rule {
    T lr, l2, eps;
    COX_ALWAYS_INLINE void operator()(T g, T& w, T& a) const {
      g += l2 * w;
      a += g * g;
      w -= lr * g / (std::sqrt(a) + eps);
    }
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {static_cast<T>(step.rate), static_cast<T>(l2), static_cast<T>(epsilon)};
  }

  operator proto::OptimizerSpec() const { return ToSpec(*this); }  // NOLINT: is one
};

}  // namespace coxswain
