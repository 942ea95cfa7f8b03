// What the ops on shards share: which shard, of which type, and the way to it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/graph/attr.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {

// The attributes shard (its number) and variable (its name, for people).
struct ShardTarget {
  ShardId shard = 0;
  std::string variable;
};
absl::StatusOr<ShardTarget> ParseShardTarget(const Attrs& attrs);

// The attribute update, 0 when it is left out: see NumberUpdates.
absl::StatusOr<uint32_t> ParseUpdateKey(const Attrs& attrs);

// The attribute of ops that apply a gradient: by what the shard's optimizer multiplies its learning
// rate. 1 when it is left out. Errors: InvalidArgument unless it is above 0 and finite.
inline constexpr char kRateAttr[] = "rate";
absl::StatusOr<double> ParseRate(const Attrs& attrs);

// The attributes dtype and shape: what the shard is.
absl::StatusOr<TensorType> ParseShardType(const Attrs& attrs);

// Errors: FailedPrecondition on a task that holds no variables.
absl::StatusOr<graph::VariableAccess*> ShardsOf(const graph::KernelContext& context);

// `status`; if it is an error, with variable and shard in its message.
absl::Status Named(const absl::Status& status, const ShardTarget& target);

}  // namespace coxswain::kernels
