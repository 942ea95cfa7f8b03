// What a parameter server keeps beside a variable's weights, read and written by hand: the slots of
// its optimizer, and the moving averages. As ReadShard, WriteShard, ReadIds and WriteIds of the
// strategy, which do the same with weights.
//
// A slot is 0 (the weights), 1.. (those of the optimizer, kernels::SlotsOfKind) or
// cluster::kAverages, which here are not rounded when they are written; of a hash table that evicts
// rows also cluster::kUses. Rows are [n, row...], or [n] of a slot with one value a row.
//
// Errors: those of the strategy's methods; InvalidArgument for a slot that the variable lacks.
// Thread model: that of the strategy.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/api/wait.h"
#include "coxswain/strategy.h"

namespace coxswain {

absl::StatusOr<Tensor> ReadSlot(const ParameterServerStrategy& strategy, const VariableInfo& info,
                                int shard, int64_t begin, int64_t count, int slot);
absl::Status WriteSlot(const ParameterServerStrategy& strategy, const VariableInfo& info, int shard,
                       int64_t begin, const Tensor& rows, int slot);
// Of a hash table.
absl::StatusOr<ParameterServerStrategy::IdsAndRows> ReadSlotOfIds(
    const ParameterServerStrategy& strategy, const VariableInfo& info, int shard, int64_t begin,
    int64_t count, int slot);
// With a slot other than 0 all of the ids have rows.
absl::Status WriteSlotOfIds(const ParameterServerStrategy& strategy, const VariableInfo& info,
                            const Tensor& ids, const Tensor& rows, int slot);
// How many updates with gradients the slots have behind them, earlier jobs' among them: the most of
// any shard.
absl::StatusOr<int64_t> ReadGradientSteps(const ParameterServerStrategy& strategy,
                                          const VariableInfo& info);
// Reports a wait for rows of the variable that are read or written.
StillWaiting RowsOf(const Cluster& cluster, const VariableInfo& info);

}  // namespace coxswain
