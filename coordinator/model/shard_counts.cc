#include "coordinator/model/shard_counts.h"

#include <algorithm>

namespace coxswain::model {
namespace {

// One on each PS; on each of its threads, where these are large. A hash table without an end has
// one on each PS: nobody knows how large it becomes.
Partitioner ForAllThreads(int64_t min_shard_bytes, int num_ps, int threads) {
  return [servers = MinSize(min_shard_bytes, num_ps),
          lanes = MinSize(std::max(min_shard_bytes, kLargeShardBytes), int64_t{num_ps} * threads)](
             DType dtype, const Shape& shape) {
    const int64_t shards = servers(dtype, shape);
    return shape.IsFullyKnown() ? std::max(shards, lanes(dtype, shape)) : shards;
  };
}

}  // namespace

Partitioner MakePartitioner(const job::PartitionerSpec& spec, int num_ps, int threads) {
  switch (spec.kind) {
    case job::PartitionerKind::kFixedShards:
      return FixedShards(spec.shards > 0 ? spec.shards : num_ps);
    case job::PartitionerKind::kMinSize:
      return spec.max_shards > 0 ? MinSize(spec.min_shard_bytes, spec.max_shards)
                                 : ForAllThreads(spec.min_shard_bytes, num_ps, threads);
    case job::PartitionerKind::kMaxSize:
      return MaxSize(spec.max_shard_bytes, spec.max_shards);
  }
  return nullptr;
}

}  // namespace coxswain::model
