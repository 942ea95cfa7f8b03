// The sink of a column of typed values (JSON, Parquet) in rows of a data set whose texts may stand
// for missing values.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/sinks.h"

namespace coxswain::data {
namespace {

class MissingValuesSink : public FieldSink {
 public:
  MissingValuesSink(std::vector<std::string> missing, bool in_lists,
                    std::unique_ptr<FieldSink> sink)
      : missing_(std::move(missing)), in_lists_(in_lists), sink_(std::move(sink)) {}

  bool Append(absl::string_view text) override {
    return IsMissing(text) ? sink_->AppendMissing() : sink_->Append(text);
  }
  bool AppendMissing() override { return sink_->AppendMissing(); }
  bool AppendBool(bool truth) override {
    return IsMissing(truth ? "true" : "false") ? sink_->AppendMissing() : sink_->AppendBool(truth);
  }
  bool TakesLists() const override { return sink_->TakesLists(); }
  bool AppendList(absl::Span<const std::string> values) override {
    if (!in_lists_) return sink_->AppendList(values);
    list_.assign(values.begin(), values.end());
    for (std::string& value : list_) {
      if (IsMissing(value)) value.clear();
    }
    return sink_->AppendList(list_);
  }
  int64_t AppendColumn(const ColumnValues& values) override {
    if (values.has_lists()) return in_lists_ ? AppendLists(values) : sink_->AppendColumn(values);
    // What lies between two missing values goes on as it is: numbers keep their bits.
    int64_t begin = 0;
    for (int64_t row = 0; row < values.rows(); ++row) {
      if (!IsMissing(values, row)) continue;
      const int64_t wrong = AppendSlice(values, begin, row);
      if (wrong >= 0) return wrong;
      if (!sink_->AppendMissing()) return row;
      begin = row + 1;
    }
    return AppendSlice(values, begin, values.rows());
  }
  std::string Wanted() const override { return sink_->Wanted(); }

 private:
  bool IsMissing(absl::string_view text) const {
    return std::find(missing_.begin(), missing_.end(), text) != missing_.end();
  }
  bool IsMissing(const ColumnValues& values, int64_t row) {
    const int64_t entry = values.Entry(values.Of(row).begin);
    return entry != ColumnValues::kMissing && IsMissing(values.Text(entry, &scratch_));
  }
  int64_t AppendLists(const ColumnValues& values) {
    for (int64_t row = 0; row < values.rows(); ++row) {
      const ColumnValues::Range range = values.Of(row);
      list_.clear();
      for (int64_t i = range.begin; i < range.end; ++i) {
        const int64_t entry = values.Entry(i);
        const bool missing = entry == ColumnValues::kMissing;
        list_.emplace_back(missing ? absl::string_view() : values.Text(entry, &scratch_));
        if (IsMissing(list_.back())) list_.back().clear();
      }
      if (!sink_->AppendList(list_)) return row;
    }
    return -1;
  }
  int64_t AppendSlice(const ColumnValues& values, int64_t begin, int64_t end) {
    if (begin == end) return -1;
    const int64_t wrong = sink_->AppendColumn(values.Slice(begin, end - begin));
    return wrong < 0 ? wrong : begin + wrong;
  }

  const std::vector<std::string> missing_;  // few: they are compared one by one
  const bool in_lists_;
  const std::unique_ptr<FieldSink> sink_;
  std::string scratch_;
  std::vector<std::string> list_;
};

}  // namespace

std::unique_ptr<FieldSink> NewMissingValuesSink(std::vector<std::string> missing, bool in_lists,
                                                std::unique_ptr<FieldSink> sink) {
  return std::make_unique<MissingValuesSink>(std::move(missing), in_lists, std::move(sink));
}

}  // namespace coxswain::data
