// Where records of csv end in a piece of text, under a guess of what its first byte is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "runtime/data/csv_reader.h"

namespace coxswain::data {

// As CsvReader reads text, without its errors. Thread model: const methods may be called from any
// thread.
class CsvScan {
 public:
  // `whole`: nothing follows the text. `format` must outlive it; it has quoting.
  CsvScan(const CsvFormat& format, size_t columns, bool whole)
      : format_(format), columns_(columns), whole_(whole) {}

  static constexpr size_t kNowhere = absl::string_view::npos;
  struct Found {
    int64_t end = -1;         // behind the first record that ends at `least` or later; -1: none
    size_t wrong = kNowhere;  // where the guess makes no sense: the text behind is not read
  };
  // The text begins with a record, or, with `quoted`, within a field in quotes. Where `least` is
  // not above 0, the record in front of a text that begins with one counts.
  Found Find(absl::string_view text, bool quoted, int64_t least) const;

 private:
  // Behind lines without a record; kNowhere: the text ends before.
  size_t SkipLines(absl::string_view text, size_t at) const;
  // Behind the quote that closes a field; kNowhere: the text ends before, or just behind a quote.
  size_t CloseQuote(absl::string_view text, size_t at) const;
  size_t SkipBlanks(absl::string_view text, size_t at) const;

  const CsvFormat& format_;
  const size_t columns_;
  const bool whole_;
};

}  // namespace coxswain::data
