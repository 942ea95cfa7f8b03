// Records of a CSV file, one after the other, without a copy per field.
//
// Lines end with LF or CRLF; blank lines are skipped; gzip is decompressed. With quoting, a field
// that starts with a quote runs to the closing quote, may hold separators and line ends, and "" in
// it is a quote; a quote elsewhere in a field is an ordinary character. A comment is recognised
// only where a record could begin, not within quotes. Thread model: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/data/data_file.h"
#include "runtime/data/field_scan.h"
#include "runtime/data/input_file.h"

namespace coxswain::data {

struct CsvFormat {
  std::string separator = ",";  // one or more characters
  // The first record names the columns. When `columns` is given too, it is only skipped.
  bool header = false;
  std::vector<std::string> columns;  // without either, the columns are named "1", "2", ...
  bool quoting = false;
  int64_t skip_lines = 0;  // number of lines to skip at the beginning of the file
  std::string comment;     // lines that begin with this are skipped; empty: no comments
  // Strips spaces and tabs around fields, but not within quotes; a line of only these is blank.
  bool trim = false;
};

class CsvReader {
 public:
  // Opens the file and reads the column names. Errors: InvalidArgument for an empty separator or an
  // empty file; those of InputFile.
  static absl::StatusOr<std::unique_ptr<CsvReader>> Open(const std::string& path, CsvFormat format);
  static absl::StatusOr<std::unique_ptr<CsvReader>> OfInput(std::unique_ptr<InputFile> input,
                                                            CsvFormat format);
  // A reader for records from the middle of a file whose columns are known, without a header.
  // `first_line`: the number of the input's first line.
  static std::unique_ptr<CsvReader> OfBlock(std::unique_ptr<InputFile> input, CsvFormat format,
                                            std::vector<std::string> columns, int64_t first_line);

  const std::vector<std::string>& columns() const { return columns_; }
  // "; the header line is not in UTF-8 ..." if that may be why a column is not found, else "".
  std::string HeaderProblem() const;
  // The number of the column with this name. Errors: NotFound, listing the columns and the nearest
  // name; InvalidArgument when two columns have the name.
  absl::StatusOr<int> FindColumn(absl::string_view name) const;

  // Reads the next record; false at the end. Every record has columns().size() fields.
  // Errors: InvalidArgument "file:line:column: wanted ..., found ..."; those of InputFile.
  absl::StatusOr<bool> Next();
  // After Next has found a record that is none: goes on behind it, or, where its quotes are wrong,
  // behind its line. False: it is not known where it ends, as quotes enclose line ends.
  bool PassOver();
  // The fields of the last record; valid until the next call of Next.
  absl::Span<const absl::string_view> fields() const { return fields_; }
  int64_t line() const { return record_line_; }  // where the record starts, from 1
  // InvalidArgument `file:line:column: field 3 ("rating"): wanted <wanted>, found "x"`. Line and
  // column (bytes, from 1) are where the field starts.
  absl::Status FieldError(int field, absl::string_view wanted) const;

  // Reads many records at once: the next records that are plain, that is, each on its own line,
  // without quotes and with columns().size() fields. Returns their number; 0: the next record is
  // not plain, or there is none in the window, and Next must read it. `bytes`: no record is read
  // that begins after this many bytes.
  int64_t NextPlain(int64_t bytes);
  // The fields of these records; valid until the next call of Next or NextPlain.
  FieldColumn plain_column(int column) const;
  int64_t plain_line() const { return record_line_; }  // where the first one starts
  // Where one of them is in the input, its line end included.
  ByteRange PlainBytes(int64_t record) const;
  // As FieldError.
  absl::Status PlainError(int64_t record, int field, absl::string_view wanted) const;

  const std::string& path() const { return input_->path(); }
  InputFile* input() { return input_.get(); }
  int64_t next_line() const { return next_line_; }                  // after the last record
  uint64_t content_hash() const { return input_->content_hash(); }  // complete after the end

 private:
  struct Position {
    int64_t line;
    int64_t column;
  };
  enum class Scan { kDone, kNeedMore };

  CsvReader(std::unique_ptr<InputFile> input, CsvFormat format)
      : input_(std::move(input)), format_(std::move(format)) {}

  // Whether the record that begins at `begin`, and whose fields end at `ends`, is plain.
  bool IsPlain(const char* base, size_t begin, const uint32_t* ends) const;
  absl::Status SkipLines();
  absl::Status ReadColumns();
  // Whether a line that is not blank holds no record.
  bool IsLeftOut(const char* begin, const char* end) const;
  // The next record that is not blank, with any number of fields.
  absl::StatusOr<bool> NextRecord();
  void Split(absl::string_view line);
  absl::Status ReadQuoted();
  absl::StatusOr<Scan> ScanQuoted(size_t* used, int64_t* line);
  // Scans the field that starts at `p` with a quote; sets `*after` to the position after the
  // closing quote, or to null when the window ends before it.
  absl::Status ScanQuotedField(const char* p, int64_t* line, const char** line_start,
                               const char** after);
  absl::Status More();
  Position PositionOf(size_t field) const;
  absl::Status ErrorAt(Position position, absl::string_view message) const;

  std::unique_ptr<InputFile> input_;
  CsvFormat format_;
  std::vector<std::string> columns_;
  // Of these by name, filled when one is asked for: there may be ten thousands.
  static constexpr int kTwice = -1;
  mutable absl::flat_hash_map<absl::string_view, int> places_;
  bool pending_ = false;  // the first record was read to count its fields, and Next has yet to
                          // return it
  int64_t next_line_ = 1;
  int64_t record_line_ = 0;
  std::vector<absl::string_view> fields_;
  // For plain records: the ends of their fields, relative to `plain_base_`, after a leading -1.
  std::vector<uint32_t> plain_ends_;
  const char* plain_base_ = nullptr;
  int64_t plain_records_ = 0;
  // The number of fields to find at a time, small enough that the values made from them stay in the
  // cache.
  static constexpr size_t kMostFields = 4096;
  size_t plain_fields_ = kMostFields;
  bool plain_ascii_ = false;
  const char* record_begin_ = nullptr;
  bool quoted_record_ = false;
  // Of a record whose quotes are wrong, where they are: its bytes were not consumed.
  int64_t broken_line_ = 0;
  // For the fields of a quoted record: where they start in the file, and which hold "".
  std::vector<Position> positions_;
  std::vector<size_t> escaped_;
  bool field_escaped_ = false;
};

}  // namespace coxswain::data
