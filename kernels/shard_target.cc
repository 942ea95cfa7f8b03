#include "kernels/shard_target.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/function/number_updates.h"

namespace coxswain::kernels {

absl::StatusOr<ShardTarget> ParseShardTarget(const Attrs& attrs) {
  ShardTarget target;
  ASSIGN_OR_RETURN(const int64_t shard, graph::GetAttr<int64_t>(attrs, "shard"));
  ASSIGN_OR_RETURN(target.variable, graph::GetAttr<std::string>(attrs, "variable"));
  if (shard < 0 || shard > int64_t{0xffffffff}) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'shard': wanted a number below 2^32, found ", shard));
  }
  target.shard = static_cast<ShardId>(shard);
  if (attrs.contains(kAveragesAttr)) {
    ASSIGN_OR_RETURN(target.averages, graph::GetAttr<bool>(attrs, kAveragesAttr));
  }
  return target;
}

absl::StatusOr<uint32_t> ParseUpdateKey(const Attrs& attrs) {
  if (!attrs.contains(function::kUpdateAttr)) return 0;
  ASSIGN_OR_RETURN(const int64_t key, graph::GetAttr<int64_t>(attrs, function::kUpdateAttr));
  if (key < 0 || key > int64_t{0xffffffff}) {
    return absl::InvalidArgumentError(absl::StrCat("attribute '", function::kUpdateAttr,
                                                   "': wanted a number below 2^32, found ", key));
  }
  return static_cast<uint32_t>(key);
}

absl::StatusOr<double> ParseRate(const Attrs& attrs) {
  if (!attrs.contains(kRateAttr)) return 1;
  ASSIGN_OR_RETURN(const double rate, graph::GetAttr<double>(attrs, kRateAttr));
  if (rate > 0 && std::isfinite(rate)) return rate;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute '", kRateAttr, "': wanted a finite number above 0, found ", rate));
}

absl::StatusOr<TensorType> ParseShardType(const Attrs& attrs) {
  TensorType type;
  ASSIGN_OR_RETURN(type.dtype, graph::GetAttr<DType>(attrs, "dtype"));
  ASSIGN_OR_RETURN(type.shape, graph::GetAttr<Shape>(attrs, "shape"));
  return type;
}

absl::StatusOr<graph::VariableAccess*> ShardsOf(const graph::KernelContext& context) {
  if (context.variables() != nullptr) return context.variables();
  return absl::FailedPreconditionError("this task holds no variables");
}

absl::StatusOr<Tensor> ReadTarget(graph::VariableAccess* shards, const ShardTarget& target) {
  return target.averages ? shards->ReadAverages(target.shard) : shards->Read(target.shard);
}

absl::StatusOr<Tensor> GatherTarget(graph::VariableAccess* shards, const ShardTarget& target,
                                    const Tensor& ids) {
  return target.averages ? shards->GatherAverages(target.shard, ids)
                         : shards->Gather(target.shard, ids);
}

absl::Status Named(const absl::Status& status, const ShardTarget& target) {
  return status.ok() ? status
                     : Annotate(status, absl::StrCat("variable '", target.variable, "', shard ",
                                                     target.shard));
}

}  // namespace coxswain::kernels
