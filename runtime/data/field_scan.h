// Finds the ends of the fields of plain records, many bytes at a time; and views of the fields of a
// column.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace coxswain::data {

// The array for the ends must have room for this many more elements than are wanted.
inline constexpr size_t kSpareEnds = 64;

struct FieldEnds {
  size_t count = 0;
  bool ascii = false;  // all bytes up to the last end
};

// Writes to `ends` the positions of separators and line ends (LF) in `text`, in order: at most
// `most` of them and, with `quoting`, none after a quote. `text` has less than 2^32 bytes.
FieldEnds FindFieldEnds(absl::string_view text, char separator, bool quoting, uint32_t* ends,
                        size_t most);

// The fields of one column in consecutive records, each on its own line and without quotes: a view
// of a reader's window. A carriage return at the end of a line does not belong to the field.
class FieldColumn {
 public:
  // `ends` points to the end of the field before the first one (-1 before the very first field);
  // the same for the next record is `stride` elements further. `limit`: bytes before it may be
  // read.
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
  // Bytes after a field, up to here, may be read, but have no meaning.
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
