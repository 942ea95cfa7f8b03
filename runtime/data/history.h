// The values of one feature in the training part by group (such as a user), and, if rows have an
// order, the values before each row.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/batch.h"
#include "runtime/data/columns.h"

namespace coxswain::data {

struct Table;  // table.h

// Whether a history of the data set has only rows that say yes (FeatureSpec.only_positive).
bool HasOnlyPositive(const proto::DatasetSpec& spec);
// Whether a row says yes: by its label and its weight, as far as the table has them.
bool IsPositive(const Table& table, size_t row);

// Thread model: immutable.
class History {
 public:
  // `group_of` has the group of each row, `ids` its value; only `training_rows` are used (for a
  // history for evaluations: the rows that it should cover). `order`: of each row, or empty.
  // `moments`: of each row, before which order its past ends; empty: its own.
  History(std::vector<int32_t> group_of, int64_t groups, const IdArray& ids,
          absl::Span<const uint32_t> training_rows, std::vector<double> order = {},
          std::vector<double> moments = {});

  int64_t groups() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int32_t group_of(uint32_t row) const { return group_of_[row]; }
  // The values of a group, ascending, with repetitions.
  absl::Span<const int64_t> Values(int64_t group) const { return OfGroup(values_, group); }
  bool ordered() const { return !moments_.empty(); }
  // Of an ordered one: the same by the order of their rows.
  absl::Span<const int64_t> InOrder(int64_t group) const { return OfGroup(past_values_, group); }
  // Of an ordered one: the values of the row's group in rows that came before its moment, by their
  // order; where that is the same for two, by the number of the row.
  absl::Span<const int64_t> Before(uint32_t row) const;

 private:
  template <typename T>
  absl::Span<const T> OfGroup(const std::vector<T>& values, int64_t group) const {
    const auto at = static_cast<size_t>(group);
    return absl::MakeConstSpan(values).subspan(
        static_cast<size_t>(offsets_[at]), static_cast<size_t>(offsets_[at + 1] - offsets_[at]));
  }
  void SortByOrder(const IdArray& ids, absl::Span<const uint32_t> training_rows,
                   absl::Span<const double> order);

  std::vector<int32_t> group_of_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> values_;
  std::vector<double> moments_;  // of each row
  // By group, each sorted by the order of the rows: their values, and their positions in the order.
  std::vector<int64_t> past_values_;
  std::vector<double> past_order_;
};

// What the histories of a query's rows do without in training: the values of all of its rows, for
// in an evaluation none of them would be there, either. Thread model: one thread.
class ValuesOfQueries {
 public:
  // As BatchRows has the ends; `value`: that of a row of the batch.
  ValuesOfQueries(absl::Span<const int32_t> query_ends, std::function<int64_t(int64_t row)> value)
      : ends_(query_ends), value_(std::move(value)) {}
  // Whether a row of the query has it which row `row` is of; rows ascend.
  bool Has(int64_t row, int64_t value);

 private:
  absl::Span<const int32_t> ends_;
  std::function<int64_t(int64_t row)> value_;
  size_t next_ = 0;           // the query behind the one that `own_` is of
  std::vector<int64_t> own_;  // ascending
};

// <name>.values, <name>.offsets: the training values of each example's group. For training examples
// without the example's own value (all occurrences, because a repeated value would tell the model
// what to predict), and where examples are queries, without those of all of its rows. More than
// max_values (when > 0) give a sample. For an ordered history, and all examples: the last
// max_values of the earlier values.
class HistoryColumn : public Column {
 public:
  HistoryColumn(std::string name, const History* history, const IdColumn* own, int64_t max_values,
                uint64_t index)
      : name_(std::move(name)),
        history_(history),
        own_(own),
        max_values_(max_values),
        index_(index) {}
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;

 private:
  struct Pick;
  // `kept` has room for all values of the batch's rows.
  Pick PickFor(const BatchRows& rows, int64_t i, ValuesOfQueries* of_queries,
               std::vector<int64_t>* kept) const;

  std::string name_;
  const History* history_;
  const IdColumn* own_;
  int64_t max_values_;
  uint64_t index_;
};

// <name>.values, <name>.offsets: all values of each example's group that the history has. For a
// history that the column owns, also <name>.group, the group's number, and where `items` are given
// <name>.unseen: the row's own one, -1 where it is among the values.
class KnownColumn : public Column {
 public:
  KnownColumn(std::string name, const History* history)
      : name_(std::move(name)), history_(history) {}
  // `items`: of each row; null: no <name>.unseen.
  KnownColumn(std::string name, std::unique_ptr<const History> own, const IdArray* items)
      : name_(std::move(name)),
        own_(std::move(own)),
        history_(own_.get()),
        items_(items),
        grouped_(true),
        unseen_(items != nullptr) {}
  // Only describes what batches have.
  static std::unique_ptr<KnownColumn> WithoutRows(std::string name, bool grouped, bool unseen) {
    auto column = std::make_unique<KnownColumn>(std::move(name), static_cast<History*>(nullptr));
    column->grouped_ = grouped;
    column->unseen_ = unseen;
    return column;
  }
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;

 private:
  std::string name_;
  std::unique_ptr<const History> own_;  // null: it uses another column's
  const History* history_;
  const IdArray* items_ = nullptr;
  bool grouped_ = false;  // it has <name>.group
  bool unseen_ = false;   // and <name>.unseen
};

// <name>.unseen of a row with this item, in whose group's `known` values they ascend.
int64_t Unseen(int64_t item, absl::Span<const int64_t> known);

}  // namespace coxswain::data
