// The rows of a saved variable that an export writes, block by block: all, or those that were
// updated since an older checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/model/saved_reader.h"

namespace coxswain::exporter {

// Valid during the call that gets it.
struct SelectedBlock {
  int64_t rows = 0;
  const char* values = nullptr;  // rows x SavedRows::row_bytes()
  const int64_t* ids = nullptr;
};

class SelectedRows {
 public:
  // `base`: the same variable in the older checkpoint, or null for all rows. Of what is no table,
  // all rows are selected in any case. Reads what says which rows were touched, to count them.
  // `stopped` may be null; when it is true between two blocks, ForEach ends with Cancelled.
  // Errors: FailedPrecondition when the two do not have the same shards or nothing says which rows
  // were touched; DataLoss.
  static absl::StatusOr<SelectedRows> Create(model::SavedRows rows, const model::SavedRows* base,
                                             std::function<bool()> stopped);

  const model::SavedRows& saved() const { return saved_; }
  const model::SavedVariable& variable() const { return saved_.variable(); }
  int64_t rows() const { return count_; }
  // The variable's shape with rows() in its first dimension.
  Shape shape() const;

  // Of a hash table with a base: ids that have a row there and no more; else none.
  int64_t removed() const { return removed_; }
  bool may_remove() const { return base_.has_value(); }
  absl::Status ForEachRemoved(
      absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> body) const;

  // In the order of positions. `values` or `ids` are not read, and null, where they are not wanted.
  // Memory: a few blocks.
  absl::Status ForEach(bool values, bool ids,
                       absl::FunctionRef<absl::Status(const SelectedBlock&)> body) const;

 private:
  SelectedRows(model::SavedRows rows, std::function<bool()> stopped)
      : saved_(std::move(rows)), stopped_(std::move(stopped)) {}
  // 1 for each row that is selected.
  absl::Status Select(int64_t begin, int64_t count, char* selected) const;

  model::SavedRows saved_;
  std::function<bool()> stopped_;
  bool all_ = true;
  std::vector<int64_t> since_;  // by shard; empty: no base
  int64_t count_ = 0;
  std::optional<model::SavedRows> base_;  // of a hash table
  int64_t removed_ = 0;
};

}  // namespace coxswain::exporter
