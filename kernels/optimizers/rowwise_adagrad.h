// Adagrad with one accumulator for a row: for tables, whose memory it hardly adds to.
//
//   g += l2 w;  a += mean of g^2 over the row;  w -= lr g / (sqrt(a) + eps)
//
// Mudigere et al. 2021, section 4.1.2, as FBGEMM's EXACT_ROWWISE_ADAGRAD with weight decay L2. a is
// the slot `accumulator`; it begins at 0, as FBGEMM's.
#pragma once

#include <array>
#include <cmath>

#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/sgd.h"
#include "runtime/base/multiversion.h"

namespace coxswain {

struct RowwiseAdagrad {
  double learning_rate = 0.05;
  double initial_accumulator = 0;
  double epsilon = 1e-8;
  double l2 = 0;

  static constexpr char kKind[] = "rowwise_adagrad";
  static constexpr char kHelp[] = "`adagrad` for tables, with one accumulator for a row";
  static OptimizerKeys<RowwiseAdagrad> Keys() {
    return {LearningRateKey<RowwiseAdagrad>(),
            {"initial_accumulator", &RowwiseAdagrad::initial_accumulator, AtLeast(0),
             "where the row's sum of mean squared gradients begins"},
            EpsilonKey<RowwiseAdagrad>(),
            L2Key<RowwiseAdagrad>()};
  }
  auto Slots() const { return std::array{OptimizerSlot{"accumulator", initial_accumulator}}; }

  template <typename T>
  struct Rule {
    T lr, l2, eps;
    COX_ALWAYS_INLINE Sgd::Rule<T> OfRow(T mean_square, T& a) const {
      a += mean_square;
      return {lr / (std::sqrt(a) + eps), l2};
    }
  };
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {static_cast<T>(step.rate), static_cast<T>(l2), static_cast<T>(epsilon)};
  }

  operator proto::OptimizerSpec() const { return ToSpec(*this); }  // NOLINT: is one
};

}  // namespace coxswain
