// The row loop of each optimizer, compiled for several instruction sets. Internal to optimizer*.cc.
#pragma once

#include <cstdint>

#include "kernels/optimizers/optimizer_key.h"
#include "ps_server/row_block.h"

namespace coxswain::ps::optimizer_internal {

// Whether an optimizer's sparse gradients change rows that they do not name, as it declares.
template <typename O>
constexpr bool kMovesAllRows = requires {
  requires O::kMovesAllRows;
};

// A rule changes (w, slot 0, slot 1) by g, with as many slots as it has. A rule whose slot has one
// value per row computes from it the rule for the row's elements (OfRow).
template <typename Rule, typename T>
constexpr bool kPerRow = requires(const Rule& rule, T& slot) {
  rule.OfRow(T{}, slot);
};

// The arguments of Optimizer::ApplyToAll.
template <typename T>
struct Sweep {
  int64_t rows = 0;
  const RowGradient<T>* named = nullptr;  // ascending, no row twice
  int64_t n = 0;
  const T* zeros = nullptr;  // a row of zeros
};

// See Optimizer::Apply. Defined for every optimizer of the list with T float and double.
template <typename O, typename T>
int64_t RunRows(const O& optimizer, const kernels::OptimizerStep& step, const RowBlock& block,
                const int64_t* ids, int64_t n, const T* gradient);

// See Optimizer::ApplyToAll. Defined as above; does nothing where !kMovesAllRows<O>.
template <typename O, typename T>
int64_t RunSweep(const O& optimizer, const kernels::OptimizerStep& step, const RowBlock& block,
                 const Sweep<T>& sweep);

// See Optimizer::Add.
template <typename T>
void RunAdd(const RowBlock& block, const int64_t* ids, int64_t n, const T* values);

}  // namespace coxswain::ps::optimizer_internal
