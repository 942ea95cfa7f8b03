// Values of a column, some rows at a time, as files of columns have them (arrow/). What has no text
// of its own gets one, so that such a file and a CSV file of the same rows give the same ids.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/data/arrow/arrow_api.h"

namespace coxswain::data {

// A view on what a reader holds. A row has a value, or a list of them; a value is an entry, by
// number, or missing. Several values are one entry where the file has a dictionary.
class ColumnValues {
 public:
  static constexpr int64_t kMissing = -1;

  // `batch`: another number where the columns' dictionaries may be others.
  explicit ColumnValues(const CoxArrowColumn& column, uint64_t batch = 0)
      : column_(&column), batch_(batch), first_(0), rows_(column.rows) {}
  // Rows [begin, begin + rows) of these.
  ColumnValues Slice(int64_t begin, int64_t rows) const {
    ColumnValues slice = *this;
    slice.first_ += begin;
    slice.rows_ = rows;
    return slice;
  }

  int64_t rows() const { return rows_; }
  uint64_t batch() const { return batch_; }
  bool has_lists() const { return column_->lists != nullptr; }
  bool has_dictionary() const { return column_->codes != nullptr; }
  int64_t entries() const { return column_->values.count; }  // larger than all that are not missing
  bool has_texts() const { return column_->values.kind == COX_ARROW_TEXT; }
  bool has_integers() const { return column_->values.kind == COX_ARROW_INTEGER; }

  // The values of a row: [begin, end). A list that is missing has none.
  struct Range {
    int64_t begin, end;
  };
  Range Of(int64_t row) const {
    const int64_t at = first_ + row;
    if (!has_lists()) return {at, at + 1};
    if (!IsSet(column_->valid_rows, column_->valid_rows_offset + at)) return {0, 0};
    return {column_->lists[at], column_->lists[at + 1]};
  }
  // kMissing, or the entry of a value.
  int64_t Entry(int64_t value) const {
    if (has_dictionary()) return column_->codes[value];
    return IsSet(column_->values.valid, column_->values.valid_offset + value) ? value : kMissing;
  }

  // Of an entry. A text that is no number is none.
  int64_t Integer(int64_t entry) const {  // has_integers()
    return static_cast<const int64_t*>(column_->values.numbers)[entry];
  }
  bool Number(int64_t entry, double* number) const;
  // Numbers as short as they can be and still be the same; "true" and "false". Good until `scratch`
  // is changed.
  absl::string_view Text(int64_t entry, std::string* scratch) const {
    if (!has_texts()) return NumberText(entry, scratch);
    const CoxArrowValues& values = column_->values;
    return {values.bytes + values.offsets[entry],
            static_cast<size_t>(values.offsets[entry + 1] - values.offsets[entry])};
  }
  // The 64 bits of a number, by which equal ones are told.
  uint64_t Bits(int64_t entry) const;

  // For messages: `"x"`, `null`, `["a", "b"]`.
  std::string Describe(int64_t row) const;

 private:
  static bool IsSet(const uint8_t* bits, int64_t at) {
    return bits == nullptr || ((bits[at >> 3] >> (at & 7)) & 1) != 0;
  }
  absl::string_view NumberText(int64_t entry, std::string* scratch) const;

  const CoxArrowColumn* column_;
  uint64_t batch_;
  int64_t first_, rows_;
};

}  // namespace coxswain::data
