#include "runtime/data/history.h"

#include <algorithm>
#include <iterator>

#include "runtime/base/status.h"
#include "runtime/data/permutation.h"
#include "runtime/data/table.h"

namespace coxswain::data {

bool HasOnlyPositive(const proto::DatasetSpec& spec) {
  return std::any_of(spec.features().begin(), spec.features().end(),
                     [](const proto::FeatureSpec& feature) { return feature.only_positive(); });
}

bool IsPositive(const Table& table, size_t row) {
  return (table.labels.empty() || table.labels[row] > 0) &&
         (table.weights.empty() || table.weights[row] > 0);
}

History::History(std::vector<int32_t> group_of, int64_t groups, const IdArray& ids,
                 absl::Span<const uint32_t> training_rows, std::vector<double> order,
                 std::vector<double> moments)
    : group_of_(std::move(group_of)),
      offsets_(static_cast<size_t>(groups) + 1, 0),
      values_(training_rows.size()) {
  for (const uint32_t row : training_rows) ++offsets_[static_cast<size_t>(group_of_[row]) + 1];
  for (size_t g = 1; g < offsets_.size(); ++g) offsets_[g] += offsets_[g - 1];
  std::vector<int64_t> next(offsets_.begin(), offsets_.end() - 1);
  for (const uint32_t row : training_rows) {
    values_[static_cast<size_t>(next[static_cast<size_t>(group_of_[row])]++)] = ids[row];
  }
  // Because values are sorted, the occurrences of one value are a range, found without a pass over
  // the group.
  for (size_t g = 0; g + 1 < offsets_.size(); ++g) {
    std::sort(values_.begin() + offsets_[g], values_.begin() + offsets_[g + 1]);
  }
  if (!order.empty()) SortByOrder(ids, training_rows, order);
  moments_ = moments.empty() ? std::move(order) : std::move(moments);
}

void History::SortByOrder(const IdArray& ids, absl::Span<const uint32_t> training_rows,
                          absl::Span<const double> order) {
  std::vector<uint32_t> sorted(training_rows.begin(), training_rows.end());
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    if (group_of_[a] != group_of_[b]) return group_of_[a] < group_of_[b];
    return order[a] != order[b] ? order[a] < order[b] : a < b;
  });
  past_values_.reserve(sorted.size());
  past_order_.reserve(sorted.size());
  for (const uint32_t row : sorted) {
    past_values_.push_back(ids[row]);
    past_order_.push_back(order[row]);
  }
}

absl::Span<const int64_t> History::Before(uint32_t row) const {
  const absl::Span<const double> order = OfGroup(past_order_, group_of(row));
  const auto end = std::lower_bound(order.begin(), order.end(), moments_[row]);
  return OfGroup(past_values_, group_of(row)).subspan(0, static_cast<size_t>(end - order.begin()));
}

bool ValuesOfQueries::Has(int64_t row, int64_t value) {
  for (; next_ == 0 || row >= ends_[next_ - 1]; ++next_) {
    own_.clear();
    const int64_t begin = next_ == 0 ? 0 : ends_[next_ - 1];
    for (int64_t i = begin; i < ends_[next_]; ++i) own_.push_back(value_(i));
    std::sort(own_.begin(), own_.end());
  }
  return std::binary_search(own_.begin(), own_.end(), value);
}

// The values of an example: those of its group without [gap, gap + gap_size).
struct HistoryColumn::Pick {
  absl::Span<const int64_t> values;
  int64_t gap = 0;
  int64_t gap_size = 0;
  int64_t taken = 0;

  int64_t others() const { return static_cast<int64_t>(values.size()) - gap_size; }
};

HistoryColumn::Pick HistoryColumn::PickFor(const BatchRows& rows, int64_t i,
                                           ValuesOfQueries* of_queries,
                                           std::vector<int64_t>* kept) const {
  const uint32_t row = rows.rows[static_cast<size_t>(i)];
  Pick pick;
  if (history_->ordered()) {
    pick.values = history_->Before(row);
    const auto all = static_cast<int64_t>(pick.values.size());
    pick.taken = max_values_ > 0 ? std::min(all, max_values_) : all;
    pick.values.remove_prefix(static_cast<size_t>(all - pick.taken));
    return pick;
  }
  pick.values = history_->Values(history_->group_of(row));
  if (rows.training && !rows.query_ends.empty()) {
    const size_t begin = kept->size();
    std::copy_if(pick.values.begin(), pick.values.end(), std::back_inserter(*kept),
                 [&](int64_t value) { return !of_queries->Has(i, value); });
    pick.values = absl::MakeConstSpan(*kept).subspan(begin);
  } else if (rows.training) {
    const auto begin = pick.values.begin();
    const int64_t own = own_->ids()[row];
    const auto first = std::lower_bound(begin, pick.values.end(), own);
    auto last = first;
    while (last != pick.values.end() && *last == own) ++last;
    pick.gap = first - begin;
    pick.gap_size = last - first;
  }
  pick.taken = max_values_ > 0 ? std::min(pick.others(), max_values_) : pick.others();
  return pick;
}

void HistoryColumn::Describe(std::vector<ColumnSpec>* specs) const { DescribeRagged(name_, specs); }

absl::Status HistoryColumn::Gather(const BatchRows& rows, Batch* batch) const {
  std::vector<Pick> picks(static_cast<size_t>(rows.size()));
  ValuesOfQueries of_queries(
      rows.query_ends, [&](int64_t i) { return own_->ids()[rows.rows[static_cast<size_t>(i)]]; });
  std::vector<int64_t> kept;  // what queries do not do without; picks point into it
  if (rows.training && !rows.query_ends.empty() && !history_->ordered()) {
    size_t most = 0;
    for (const uint32_t row : rows.rows) most += history_->Values(history_->group_of(row)).size();
    kept.reserve(most);
  }
  for (int64_t i = 0; i < rows.size(); ++i) {
    picks[static_cast<size_t>(i)] = PickFor(rows, i, &of_queries, &kept);
  }
  Tensor offsets;
  RETURN_IF_ERROR(FillOffsets(
      name_, rows.size(), [&](int64_t i) { return picks[static_cast<size_t>(i)].taken; },
      &offsets));
  Tensor values(DType::kI64, Shape{offsets.data<int32_t>()[rows.size()]});
  int64_t* out = values.mutable_data<int64_t>();
  for (int64_t i = 0; i < rows.size(); ++i) {
    const Pick& pick = picks[static_cast<size_t>(i)];
    const int64_t* from = pick.values.data();
    const int64_t gap_end = pick.gap + pick.gap_size;
    if (pick.taken == pick.others()) {
      out = std::copy(from, from + pick.gap, out);
      out = std::copy(from + gap_end, from + pick.values.size(), out);
      continue;
    }
    SampleIndices(rows.SampleKey(i, index_), static_cast<uint32_t>(pick.others()),
                  static_cast<uint32_t>(pick.taken), [&](uint32_t index) {
                    *out++ = from[index < pick.gap ? index : index + pick.gap_size];
                  });
  }
  batch->push_back(std::move(values));
  batch->push_back(std::move(offsets));
  return absl::OkStatus();
}

void KnownColumn::Describe(std::vector<ColumnSpec>* specs) const {
  DescribeRagged(name_, specs);
  if (grouped_) specs->push_back({name_ + ".group", {DType::kI64, Shape{kUnknownDim}}});
  if (unseen_) specs->push_back({name_ + ".unseen", {DType::kI64, Shape{kUnknownDim}}});
}

int64_t Unseen(int64_t item, absl::Span<const int64_t> known) {
  return std::binary_search(known.begin(), known.end(), item) ? -1 : item;
}

absl::Status KnownColumn::Gather(const BatchRows& rows, Batch* batch) const {
  const auto of = [&](int64_t i) {
    return history_->Values(history_->group_of(rows.rows[static_cast<size_t>(i)]));
  };
  Tensor offsets;
  RETURN_IF_ERROR(FillOffsets(
      name_, rows.size(), [&](int64_t i) { return static_cast<int64_t>(of(i).size()); }, &offsets));
  Tensor values(DType::kI64, Shape{offsets.data<int32_t>()[rows.size()]});
  int64_t* out = values.mutable_data<int64_t>();
  for (int64_t i = 0; i < rows.size(); ++i) {
    const absl::Span<const int64_t> known = of(i);
    out = std::copy(known.begin(), known.end(), out);
  }
  batch->push_back(std::move(values));
  batch->push_back(std::move(offsets));
  if (!grouped_) return absl::OkStatus();
  Tensor groups(DType::kI64, Shape{rows.size()});
  for (int64_t i = 0; i < rows.size(); ++i) {
    groups.mutable_data<int64_t>()[i] = history_->group_of(rows.rows[static_cast<size_t>(i)]);
  }
  batch->push_back(std::move(groups));
  if (!unseen_) return absl::OkStatus();
  Tensor unseen(DType::kI64, Shape{rows.size()});
  for (int64_t i = 0; i < rows.size(); ++i) {
    const uint32_t row = rows.rows[static_cast<size_t>(i)];
    unseen.mutable_data<int64_t>()[i] = Unseen((*items_)[row], of(i));
  }
  batch->push_back(std::move(unseen));
  return absl::OkStatus();
}

}  // namespace coxswain::data
