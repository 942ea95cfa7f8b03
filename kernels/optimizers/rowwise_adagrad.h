// Adagrad with one accumulator for a row: for tables, whose memory it hardly adds to.
//
//   g += l2 w;  a += mean of g^2 over the row;  w -= lr g / (sqrt(a) + eps)
//
// Mudigere et al. 2021, section 4.1.2, as FBGEMM's EXACT_ROWWISE_ADAGRAD with weight decay L2. a is
// the slot `accumulator`; it begins at 0, as FBGEMM's.
#pragma once

#include <array>
#include <cmath>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "kernels/optimizers/rule_numbers.h"
#include "kernels/optimizers/sgd.h"
#include "runtime/base/multiversion.h"

namespace coxswain::kernels {

struct RowwiseAdagradOptimizer : RowwiseAdagrad {
  using Parameters = RowwiseAdagrad;
  static constexpr char kKind[] = "rowwise_adagrad";
  static constexpr char kHelp[] = "`adagrad` for tables, with one accumulator per row";
  static OptimizerKeys<RowwiseAdagradOptimizer> Keys() {
    return {LearningRateKey<RowwiseAdagradOptimizer>(),
            {"initial_accumulator", &RowwiseAdagrad::initial_accumulator, AtLeast(0),
             "initial value of a row's sum of mean squared gradients"},
            EpsilonKey<RowwiseAdagradOptimizer>(),
            L2Key<RowwiseAdagradOptimizer>()};
  }
  auto Slots() const { return std::array{OptimizerSlot{"accumulator", initial_accumulator}}; }

  template <typename T>
  struct Rule : RowwiseAdagradNumbers<T> {
    using Numbers = RowwiseAdagradNumbers<T>;
    using Numbers::lr, Numbers::l2, Numbers::eps;
    COX_ALWAYS_INLINE SgdOptimizer::Rule<T> OfRow(T mean_square, T& a) const {
      a += mean_square;
      return {{.lr = lr / (std::sqrt(a) + eps), .l2 = l2}};
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
