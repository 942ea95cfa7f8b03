// Windows of a group's training rows, in their order, for models that learn from all values of a
// sequence at once (FeatureSpec.width of a history): an example of the training part is then a
// window, and not a row.
//
// The training rows of a group are sorted by the history's `by`, and where that is the same by the
// row's number: r_0, ..., r_n-1. A window r_b, ..., r_e has the values of all but its last row, and
// its targets are those of all but its first: the value of each row is to be predicted of those
// before it. The last window ends with r_n-1, the one before it with r_n-1-length, and so on down
// to the one that begins with r_0, which may have fewer targets. So every row is a target of one
// window, but for a group's first row, before which there is nothing: a group of one row has no
// window.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/data/batch.h"
#include "runtime/data/columns.h"

namespace coxswain::data {

// Thread model: immutable.
class HistoryWindows {
 public:
  // `group_of` has the group of each row, `order` what it is sorted by; only `training_rows` are in
  // windows, of at most `length` targets each.
  HistoryWindows(absl::Span<const int32_t> group_of, absl::Span<const double> order,
                 absl::Span<const uint32_t> training_rows, int64_t length);

  // The last rows of all windows, ascending, which name them.
  const std::vector<uint32_t>& last_rows() const { return last_rows_; }
  int64_t targets() const { return targets_; }
  // The rows of a window in their order, at least two. `last_row` is one of last_rows().
  absl::Span<const uint32_t> Of(uint32_t last_row) const;

 private:
  struct Range {
    size_t begin = 0, size = 0;
  };

  std::vector<uint32_t> sorted_;     // training rows by group, order and number
  std::vector<uint32_t> last_rows_;  // ascending
  std::vector<Range> ranges_;        // in sorted_, of each of these
  int64_t targets_ = 0;
};

// Where examples are windows, what batches of the training part have for them besides the history's
// values, which are those of the window:
//   <name>.next         i64 [n]  behind each value the next one: a target
//   <name>.next.window  i32 [n]  which of the batch's windows it is of
//   <name>.next.weight  f32 [n]  the weight of the target's row, where rows have weights
class TargetColumn : public Column {
 public:
  TargetColumn(std::string name, HistoryWindows windows, const IdColumn* own)
      : name_(std::move(name)), windows_(std::move(windows)), own_(own) {}

  const HistoryWindows& windows() const { return windows_; }
  // Before it describes anything; of all rows.
  void set_weights(const NumericColumn* weights) { weights_ = weights; }
  // <name>.values and <name>.offsets of windows.
  absl::Status GatherValues(const BatchRows& rows, Batch* batch) const;
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;

 private:
  std::string name_;
  HistoryWindows windows_;
  const IdColumn* own_;
  const NumericColumn* weights_ = nullptr;
};

// The column of a history whose windows are examples: of training those, of other parts `rows`.
class WindowedHistory : public Column {
 public:
  WindowedHistory(std::unique_ptr<const Column> rows, const TargetColumn* windows)
      : rows_(std::move(rows)), windows_(windows) {}
  void Describe(std::vector<ColumnSpec>* specs) const override { rows_->Describe(specs); }
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override {
    return rows.training ? windows_->GatherValues(rows, batch) : rows_->Gather(rows, batch);
  }

 private:
  std::unique_ptr<const Column> rows_;
  const TargetColumn* windows_;
};

}  // namespace coxswain::data
