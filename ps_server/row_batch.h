// Look-ups and updates of rows in the memory of a GPU that wait for each other: one copy brings
// what all of them need, and the device can start them together. A segment has one for each of its
// tables, and alone each costs a copy and a launch, which take longer than most of them run.
//
// Thread model: as of the shards that it has work of, which are those of a lane (or of several
// lanes that are held).
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"

namespace coxswain::ps {

class DeviceRows;

class RowBatch {
 public:
  RowBatch() = default;
  RowBatch(const RowBatch&) = delete;
  RowBatch& operator=(const RowBatch&) = delete;
  // Look-ups that wait are dropped. Updates must not wait any more.
  ~RowBatch();

  // Enqueues what waits, of each shard in the order in which it came. Errors: those of look-ups
  // since this was called last, whose tensors have no values then. Updates cannot fail: where the
  // host has no memory for them, the process ends.
  absl::Status Run() noexcept;

 private:
  friend class DeviceRows;

  // A look-up or an update, with all that it needs in host memory.
  struct Work {
    DeviceRows* of = nullptr;
    Tensor rows;  // their numbers, i64 [n] on the host
    // A look-up: the result, and rows of it that are not of the block; their numbers in it, and
    // their values.
    Tensor found;
    std::vector<int64_t> given;
    std::vector<float> values;
    // An update: of the rule, and the gradient, wherever it is.
    std::vector<float> rule;
    Tensor gradient;
    size_t bytes = 0;  // that are to be brought, a multiple of the alignment of tensors

    bool is_update() const { return !rule.empty(); }
  };

  void Add(Work work);
  // Those of one stream.
  void RunTogether(absl::Span<Work> works);
  // What could not be enqueued.
  void OnError(Work* work, const absl::Status& why);

  std::vector<Work> waiting_;
  size_t bytes_ = 0;     // of those that wait
  absl::Status status_;  // of look-ups
};

}  // namespace coxswain::ps
