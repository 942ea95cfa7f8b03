// Adam that moves only the rows that a step touches, moments and weights; its formula is that of
// adam.h. As TensorFlow Addons' LazyAdam.
#pragma once

#include <array>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/adam.h"
#include "kernels/optimizers/optimizer_key.h"
#include "kernels/optimizers/optimizer_spec.h"

namespace coxswain::kernels {

struct LazyAdamOptimizer : LazyAdam {
  using Parameters = LazyAdam;
  static constexpr char kKind[] = "lazy_adam";
  static constexpr char kHelp[] =
      "`adam` for tables, which updates only the rows that a step touches";
  static OptimizerKeys<LazyAdamOptimizer> Keys() { return AdamKeys<LazyAdamOptimizer>(); }
  auto Slots() const { return std::array{OptimizerSlot{"m", 0}, OptimizerSlot{"v", 0}}; }

  template <typename T>
  using Rule = AdamRule<T>;
  template <typename T>
  Rule<T> RuleOf(const OptimizerStep& step) const {
    return {*this, step};
  }
};

}  // namespace coxswain::kernels
