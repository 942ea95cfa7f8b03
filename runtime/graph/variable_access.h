// What a kernel may do with the shards that live on its task. Implemented by the PS.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "runtime/base/ids.h"

namespace coxswain::graph {

// One change of one shard. It is staged while a segment runs and applied, with all others of the
// segment, at its end: whole or not at all. What a retry brings again is dropped by its key.
struct Update {
  enum class Kind : uint8_t {
    kDense,      // values: gradient of the shard's shape; the shard's optimizer applies it
    kSparse,     // ids: i64 [n], unique; values: gradient rows [n, ...]
    kAssign,     // values replace the shard
    kAssignAdd,  // values are added
    kAssignMovingAverage,  // each goes towards that of values, by the share `rate` of the way
    kScatterAdd            // ids: i64 [n]; values: rows that are added (no optimizer)
  };
  Kind kind = Kind::kDense;
  ShardId shard = 0;
  Tensor ids;
  Tensor values;
  // Of a gradient: not negative, it stands for the learning rate of the shard's optimizer, and for
  // its schedule.
  double learning_rate = -1;
  uint32_t key = 0;  // which of the function's updates of this shard it is, see NumberUpdates
  // Of a gradient: by what the optimizer multiplies its learning rate. Of a moving average: 0..1.
  double rate = 1;
};

class VariableAccess {
 public:
  virtual ~VariableAccess() = default;
  // The shard's value. It does not change while the tensor is held (a copy, or copy-on-write).
  // Errors: NotFound when the task has no such shard.
  virtual absl::StatusOr<Tensor> Read(ShardId shard) = 0;
  // Rows by local id (i64 [n], 0 <= id < rows of the shard): [n, row...].
  // Errors: NotFound; InvalidArgument for an id out of range.
  virtual absl::StatusOr<Tensor> Gather(ShardId shard, const Tensor& ids) = 0;
  // The same for somebody who takes rows in the memory of a GPU, where they are.
  virtual absl::StatusOr<Tensor> GatherForDevice(ShardId shard, const Tensor& ids) {
    return Gather(shard, ids);
  }
  // The same of the moving averages of its values, where it keeps these.
  virtual absl::StatusOr<Tensor> ReadAverages(ShardId shard) { return Read(shard); }
  virtual absl::StatusOr<Tensor> GatherAverages(ShardId shard, const Tensor& ids) {
    return Gather(shard, ids);
  }
  // Errors: NotFound; InvalidArgument when shapes, dtypes or ids do not fit the shard.
  virtual absl::Status Stage(Update update) = 0;
  // Stages an update that adds, and returns what the shard is before it. Where this step of this
  // closure has made it before: what was returned then, as long as that is known.
  // Errors: as Stage; Unimplemented where nothing is updated.
  virtual absl::StatusOr<Tensor> FetchAdd(Update update, ClosureId closure, uint32_t step) {
    (void)update, (void)closure, (void)step;
    return absl::UnimplementedError("shards are not updated here");
  }
};

}  // namespace coxswain::graph
