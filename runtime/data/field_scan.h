// Where the fields of plain records end, found many bytes at a time, and the fields of a column.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace coxswain::data {

// Beyond the number of ends that are wanted, the array has room for so many.
inline constexpr size_t kSpareEnds = 64;

struct FieldEnds {
  size_t count = 0;
  bool ascii = false;  // all bytes up to the last end
};

// Writes to `ends` where in `text` separators and line ends (LF) stand, in their order: at most
// `most` of them and, with `quoting`, none behind a quote. `text` has less than 2^32 bytes.
FieldEnds FindFieldEnds(absl::string_view text, char separator, bool quoting, uint32_t* ends,
                        size_t most);

// The fields of one column of records that follow each other, each on a line of its own and without
// quotes: a view on a reader's window. A carriage return at the end of a line is no part of it.
class FieldColumn {
 public:
  // `ends` points to where the field before the first one ends (-1 before the first of all); of the
  // next record `stride` further on. `limit`: bytes before it may be read.
  FieldColumn(const char* base, const uint32_t* ends, size_t stride, int64_t rows, bool last,
              const char* limit, bool ascii)
      : base_(base),
        ends_(ends),
        stride_(stride),
        rows_(rows),
        last_(last),
        ascii_(ascii),
        limit_(limit) {}

  int64_t rows() const { return rows_; }
  absl::string_view operator[](int64_t row) const {
    const uint32_t* const end = ends_ + static_cast<size_t>(row) * stride_;
    const uint32_t begin = end[0] + 1;
    uint32_t size = end[1] - begin;
    if (last_ && size > 0 && base_[end[1] - 1] == '\r') --size;
    return {base_ + begin, size};
  }
  // All fields are ASCII. False: some may not be.
  bool ascii() const { return ascii_; }
  // Bytes behind a field, up to here, may be read; they mean nothing.
  const char* limit() const { return limit_; }

  FieldColumn First(int64_t rows) const {
    FieldColumn first = *this;
    first.rows_ = rows;
    return first;
  }

 private:
  const char* base_;
  const uint32_t* ends_;
  size_t stride_;
  int64_t rows_;
  bool last_, ascii_;
  const char* limit_;
};

}  // namespace coxswain::data
