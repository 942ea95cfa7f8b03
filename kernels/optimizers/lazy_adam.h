// Adam that moves only the rows that a step touches, moments and weights; its formula is that of
// adam.h. As TensorFlow Addons' LazyAdam.
#pragma once

#include <array>

#include "kernels/optimizers/adam.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"

namespace coxswain {

struct LazyAdam {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double l2 = 0;

  static constexpr char kKind[] = "lazy_adam";
  static constexpr char kHelp[] =
      "`adam` for tables, which moves only the rows that a step touches";
  static OptimizerKeys<LazyAdam> Keys() { return AdamKeys<LazyAdam>(); }
  auto Slots() const { return std::array{OptimizerSlot{"m", 0}, OptimizerSlot{"v", 0}}; }

  template <typename T>
  using Rule = AdamRule<T>;
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {*this, step};
  }

  operator proto::OptimizerSpec() const { return ToSpec(*this); }  // NOLINT: is one
};

}  // namespace coxswain
