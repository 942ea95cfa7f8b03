// The ops that a cluster has, for tests.
#pragma once

#include <string>
#include <utility>

#include "kernels/register.h"
#include "runtime/function/partition.h"
#include "runtime/function/place_on_devices.h"
#include "runtime/graph/op.h"

namespace coxswain::testing {

// Registers every op of kernels/ and PsCall; made once in a process and never destroyed.
inline const graph::OpRegistry& ClusterOps() {
  static const graph::OpRegistry* const kRegistry = [] {
    auto* registry = new graph::OpRegistry;
    kernels::RegisterAllOps(registry);
    function::RegisterPsCall(registry);
    function::RegisterCopies(registry);
    return registry;
  }();
  return *kRegistry;
}

// Where a shard lives, for functions on shards 0 .. n-1 on n parameter servers.
inline int PsOfSameNumber(ShardId shard) { return static_cast<int>(shard); }

// Attributes of the ops on shards.
inline Attrs ShardOf(int64_t shard) {
  return {{"shard", shard}, {"variable", "v" + std::to_string(shard)}};
}
inline Attrs ReadOf(int64_t shard, Shape shape) {
  Attrs attrs = ShardOf(shard);
  attrs["dtype"] = DType::kF32;
  attrs["shape"] = std::move(shape);
  return attrs;
}

}  // namespace coxswain::testing
