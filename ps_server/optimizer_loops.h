// The row loop of each rule, compiled for several instruction sets. Internal to optimizer*.cc.
#pragma once

#include <cstdint>

#include "ps_server/optimizer_rules.h"

namespace coxswain::optimizer_internal {

// See Optimizer::Apply. Defined for every rule of optimizer_rules.h with T float and double.
template <typename Rule, typename T>
void Run(const Rule& rule, const RowBlock& block, const int64_t* ids, int64_t n, const T* gradient);

// See Optimizer::ApplyToAll. Defined for T float and double.
template <typename T>
void RunSweep(const AdamRule<T>& rule, const RowBlock& block, const Sweep<T>& sweep);

}  // namespace coxswain::optimizer_internal
