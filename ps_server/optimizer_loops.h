// The row loop of each optimizer, compiled for several instruction sets. Internal to optimizer*.cc.
#pragma once

#include <cstdint>

#include "kernels/optimizers/optimizer_key.h"
#include "ps_server/row_block.h"

namespace coxswain::ps::optimizer_internal {

// Optimizers whose sparse gradients change rows that they do not name say so.
template <typename O>
constexpr bool kMovesAllRows = requires {
  requires O::kMovesAllRows;
};

// A rule changes (w, slot 0, slot 1) by g, with as many slots as it takes. One whose slot has a
// value for a row makes of that the rule of the row's elements (OfRow).
template <typename Rule, typename T>
constexpr bool kPerRow = requires(const Rule& rule, T& slot) {
  rule.OfRow(T{}, slot);
};

// What Optimizer::ApplyToAll is told.
template <typename T>
struct Sweep {
  int64_t rows = 0;
  const RowGradient<T>* named = nullptr;  // ascending, no row twice
  int64_t n = 0;
  const T* zeros = nullptr;  // a row of them
};

// See Optimizer::Apply. Defined for every optimizer of the list with T float and double.
template <typename O, typename T>
void RunRows(const O& optimizer, const kernels::OptimizerStep& step, const RowBlock& block,
             const int64_t* ids, int64_t n, const T* gradient);

// See Optimizer::ApplyToAll. Defined as above; does nothing where !kMovesAllRows<O>.
template <typename O, typename T>
void RunSweep(const O& optimizer, const kernels::OptimizerStep& step, const RowBlock& block,
              const Sweep<T>& sweep);

// See Optimizer::Add.
template <typename T>
void RunAdd(const RowBlock& block, const int64_t* ids, int64_t n, const T* values);

}  // namespace coxswain::ps::optimizer_internal
