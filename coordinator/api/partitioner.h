// How a variable is cut into shards along its first dimension, with the meaning of TensorFlow's
// tf.distribute.experimental.partitioners.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace coxswain {

// The number of shards, 1 .. rows (1 for a scalar or an empty variable). A hash table without
// max_rows has -1 rows: it is taken for one without end, so that the bounds on numbers alone hold.
using Partitioner = std::function<int64_t(DType dtype, const Shape& shape)>;

// `shards`, or one per row if there are fewer rows.
Partitioner FixedShards(int64_t shards);
// As many shards as leave each at least `min_shard_bytes`, at most `max_shards`.
Partitioner MinSize(int64_t min_shard_bytes = 256 << 10, int64_t max_shards = 1);
// As few shards as keep each within `max_shard_bytes` (a row is never cut), at most `max_shards`
// (0: no bound).
Partitioner MaxSize(int64_t max_shard_bytes, int64_t max_shards = 0);

}  // namespace coxswain
