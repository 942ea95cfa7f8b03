// What the ops on shards share: which shard, of which type, and the way to it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/graph/attr.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {

// An attribute of the ops that read: the moving averages instead of the values. False when it is
// left out.
inline constexpr char kAveragesAttr[] = "averages";

// The attributes shard (its number) and variable (its name, for people), and kAveragesAttr.
struct ShardTarget {
  ShardId shard = 0;
  std::string variable;
  bool averages = false;
};
absl::StatusOr<ShardTarget> ParseShardTarget(const Attrs& attrs);

// The attribute update, 0 when it is left out: see NumberUpdates.
absl::StatusOr<uint32_t> ParseUpdateKey(const Attrs& attrs);

// Of ops that apply a gradient, what the optimizer's learning rate is multiplied with; of a moving
// average, its share of the way. Left out: 1. Errors: InvalidArgument unless above 0 and finite.
inline constexpr char kRateAttr[] = "rate";
absl::StatusOr<double> ParseRate(const Attrs& attrs);

// The attributes dtype and shape: what the shard is.
absl::StatusOr<TensorType> ParseShardType(const Attrs& attrs);

// Errors: FailedPrecondition on a task that holds no variables.
absl::StatusOr<graph::VariableAccess*> ShardsOf(const graph::KernelContext& context);

// What a shard is, or its rows of these ids, by kAveragesAttr. Errors: those of VariableAccess.
absl::StatusOr<Tensor> ReadTarget(graph::VariableAccess* shards, const ShardTarget& target);
absl::StatusOr<Tensor> GatherTarget(graph::VariableAccess* shards, const ShardTarget& target,
                                    const Tensor& ids);

// `status`; if it is an error, with variable and shard in its message.
absl::Status Named(const absl::Status& status, const ShardTarget& target);

}  // namespace coxswain::kernels
