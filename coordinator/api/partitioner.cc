#include <algorithm>

#include "coxswain/strategy.h"

namespace coxswain {
namespace {

constexpr int64_t kMostShards = 1 << 20;  // of what has no end

bool Unbounded(const Shape& shape) { return shape.rank() > 0 && shape.dim(0) < 0; }

int64_t Rows(const Shape& shape) {
  return shape.rank() == 0 ? 1 : std::max<int64_t>(1, shape.dim(0));
}

int64_t Bytes(DType dtype, const Shape& shape) {
  return shape.num_elements() * static_cast<int64_t>(SizeOf(dtype));
}

}  // namespace

Partitioner FixedShards(int64_t shards) {
  return [shards](DType, const Shape& shape) {
    return std::clamp<int64_t>(shards, 1, Unbounded(shape) ? kMostShards : Rows(shape));
  };
}

Partitioner MinSize(int64_t min_shard_bytes, int64_t max_shards) {
  return [min_shard_bytes, max_shards](DType dtype, const Shape& shape) {
    if (Unbounded(shape)) return std::clamp<int64_t>(max_shards, 1, kMostShards);
    const int64_t rows = Rows(shape);
    const int64_t row_bytes = std::max<int64_t>(1, Bytes(dtype, shape) / rows);
    // Shards are whole rows, and the smallest of s shards has rows / s of them.
    const int64_t min_rows =
        min_shard_bytes <= row_bytes ? 1 : (min_shard_bytes - 1) / row_bytes + 1;
    return std::clamp<int64_t>(std::min(rows / min_rows, max_shards), 1, rows);
  };
}

Partitioner MaxSize(int64_t max_shard_bytes, int64_t max_shards) {
  return [max_shard_bytes, max_shards](DType dtype, const Shape& shape) {
    if (Unbounded(shape)) return std::clamp<int64_t>(max_shards, 1, kMostShards);
    const int64_t rows = Rows(shape);
    const int64_t row_bytes = std::max<int64_t>(1, Bytes(dtype, shape) / rows);
    const int64_t rows_per_shard = std::max<int64_t>(1, max_shard_bytes / row_bytes);
    int64_t shards = (rows + rows_per_shard - 1) / rows_per_shard;
    if (max_shards > 0) shards = std::min(shards, max_shards);
    return std::clamp<int64_t>(shards, 1, rows);
  };
}

}  // namespace coxswain
