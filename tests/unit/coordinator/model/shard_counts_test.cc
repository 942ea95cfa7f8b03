#include "coordinator/model/shard_counts.h"

#include <catch2/catch.hpp>

namespace coxswain::model {
namespace {

using job::PartitionerKind;
using job::PartitionerSpec;

constexpr int64_t kMiB = 1 << 20;

int64_t Shards(const PartitionerSpec& spec, int threads, int64_t mib) {
  const Shape shape{mib * kMiB / 64, 16};  // rows of 64 bytes
  return MakePartitioner(spec, /*num_ps=*/2, threads)(DType::kF32, shape);
}

TEST_CASE("a large table has a shard for each thread of its parameter servers", "[model]") {
  const PartitionerSpec spec{.min_shard_bytes = 256 << 10};
  CHECK(Shards(spec, 8, 0) == 1);
  CHECK(Shards(spec, 8, 1) == 2);   // one for each parameter server
  CHECK(Shards(spec, 8, 47) == 2);  // three would have less than 16 MiB
  CHECK(Shards(spec, 8, 48) == 3);
  CHECK(Shards(spec, 8, 256) == 16);
  CHECK(Shards(spec, 8, 4096) == 16);
  CHECK(Shards(spec, 1, 4096) == 2);
}

TEST_CASE("what the job says of the number of shards holds, whatever the threads", "[model]") {
  CHECK(Shards({.max_shards = 3}, 8, 4096) == 3);
  CHECK(Shards({.min_shard_bytes = 1024 * kMiB}, 8, 4096) == 4);
  CHECK(Shards({.kind = PartitionerKind::kFixedShards}, 8, 4096) == 2);
  CHECK(Shards({.kind = PartitionerKind::kFixedShards, .shards = 5}, 8, 4096) == 5);
}

TEST_CASE("a hash table without an end has a shard on each parameter server", "[model]") {
  const Partitioner partitioner = MakePartitioner({}, 3, 8);
  CHECK(partitioner(DType::kF32, Shape{kUnknownDim, 64}) == 3);
}

}  // namespace
}  // namespace coxswain::model
