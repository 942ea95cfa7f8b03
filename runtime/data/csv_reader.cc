// Columns and their names, records without quotes, records with quotes, and positions of errors.
#include "runtime/data/csv_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/data/utf8.h"

namespace coxswain::data {
namespace {

constexpr size_t kNamedColumns = 40;  // in a message

const char* FindChar(const char* begin, const char* end, char c) {
  return begin == end
             ? nullptr
             : static_cast<const char*>(std::memchr(begin, c, static_cast<size_t>(end - begin)));
}

// Where `separator` starts in [begin, end), or `end`.
const char* FindSeparator(const char* begin, const char* end, absl::string_view separator) {
  if (separator.size() == 1) {
    // Fields are short: a plain loop beats a call of memchr.
    const char c = separator[0];
    while (begin != end && *begin != c) ++begin;
    return begin;
  }
  for (; static_cast<size_t>(end - begin) >= separator.size(); ++begin) {
    if (*begin == separator[0] && std::memcmp(begin, separator.data(), separator.size()) == 0) {
      return begin;
    }
  }
  return end;
}

bool StartsWith(const char* begin, const char* end, absl::string_view text) {
  return static_cast<size_t>(end - begin) >= text.size() &&
         std::memcmp(begin, text.data(), text.size()) == 0;
}

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

absl::string_view WithoutBlanks(absl::string_view field) {
  while (!field.empty() && IsBlank(field.front())) field.remove_prefix(1);
  while (!field.empty() && IsBlank(field.back())) field.remove_suffix(1);
  return field;
}

// A separator may itself be blank.
const char* SkipBlanks(const char* p, const char* end, absl::string_view separator) {
  while (p != end && IsBlank(*p) && !StartsWith(p, end, separator)) ++p;
  return p;
}

// Turns "" into " in place; returns the result.
absl::string_view Unescape(absl::string_view field) {
  char* out = const_cast<char*>(field.data());  // the reader's own window
  char* const begin = out;
  for (size_t i = 0; i < field.size(); ++i) {
    *out++ = field[i];
    if (field[i] == '"') ++i;
  }
  return absl::string_view(begin, static_cast<size_t>(out - begin));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvReader>> CsvReader::Open(const std::string& path,
                                                           CsvFormat format) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> input, InputFile::Open(path));
  return OfInput(std::move(input), std::move(format));
}

absl::StatusOr<std::unique_ptr<CsvReader>> CsvReader::OfInput(std::unique_ptr<InputFile> input,
                                                              CsvFormat format) {
  const std::string& path = input->path();
  if (format.separator.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the separator is empty"));
  }
  if (format.separator.find_first_of("\r\n") != std::string::npos ||
      (format.quoting && format.separator[0] == '"')) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the separator ",
                                                   Quoted(format.separator),
                                                   " holds a line end or starts with a quote"));
  }
  std::unique_ptr<CsvReader> reader(new CsvReader(std::move(input), std::move(format)));
  RETURN_IF_ERROR(reader->ReadColumns());
  return reader;
}

std::unique_ptr<CsvReader> CsvReader::OfBlock(std::unique_ptr<InputFile> input, CsvFormat format,
                                              std::vector<std::string> columns,
                                              int64_t first_line) {
  std::unique_ptr<CsvReader> reader(new CsvReader(std::move(input), std::move(format)));
  reader->columns_ = std::move(columns);
  reader->next_line_ = first_line;
  return reader;
}

absl::Status CsvReader::SkipLines() {
  for (int64_t i = 0; i < format_.skip_lines; ++i) {
    const char* newline = nullptr;
    while ((newline = FindChar(input_->begin(), input_->end(), '\n')) == nullptr &&
           !input_->at_end()) {
      RETURN_IF_ERROR(More());
    }
    const char* const end = newline == nullptr ? input_->end() : newline + 1;
    input_->Consume(static_cast<size_t>(end - input_->begin()));
    if (newline == nullptr) return absl::OkStatus();
    ++next_line_;
  }
  return absl::OkStatus();
}

absl::Status CsvReader::ReadColumns() {
  RETURN_IF_ERROR(SkipLines());
  columns_ = format_.columns;
  if (!format_.header && !columns_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool found, NextRecord());
  if (!found) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": wanted ",
                                                   format_.header ? "a header line" : "records",
                                                   ", found an empty file"));
  }
  for (const absl::string_view field : fields_) {
    if (!absl::StrContains(field, '\r') || absl::StrContains(field, '\n')) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path(), ": wanted lines that end in \\n or \\r\\n, found some that end in \\r ",
        "alone; `tr '\\r' '\\n'` converts them"));
  }
  if (!columns_.empty()) return absl::OkStatus();
  if (format_.header) {
    for (absl::string_view name : fields_) columns_.emplace_back(name);
    return absl::OkStatus();
  }
  for (size_t i = 0; i < fields_.size(); ++i) columns_.push_back(absl::StrCat(i + 1));
  pending_ = true;
  return absl::OkStatus();
}

std::string CsvReader::HeaderProblem() const {
  if (!format_.header || !format_.columns.empty()) return "";
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (absl::StrContains(columns_[i], '\0')) {
      return "; the header line has zero bytes, as text in UTF-16 has: wanted text in UTF-8";
    }
    if (!IsUtf8(columns_[i])) {
      return absl::StrCat("; the header line is not in UTF-8, see its column ", i + 1,
                          ": it may be in Latin-1 or another encoding, which iconv converts");
    }
  }
  return "";
}

absl::StatusOr<int> CsvReader::FindColumn(absl::string_view name) const {
  if (places_.empty()) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const auto [place, is_new] = places_.try_emplace(columns_[i], static_cast<int>(i));
      if (!is_new) place->second = kTwice;
    }
  }
  const auto found = places_.find(name);
  if (found == places_.end()) {
    const bool unnamed = !format_.header && format_.columns.empty();
    const std::string garbled = HeaderProblem();
    return absl::NotFoundError(
        absl::StrCat(path(), ": wanted a column ", Quoted(name), ", found none of that name",
                     garbled.empty() ? absl::StrCat("; ", Alternatives(name, columns_)) : garbled,
                     unnamed ? " (neither a header nor column names were announced)" : ""));
  }
  if (found->second == kTwice) {
    return absl::InvalidArgumentError(
        absl::StrCat(path(), ": wanted one column ", Quoted(name), ", found several"));
  }
  return found->second;
}

bool CsvReader::PassOver() {
  if (broken_line_ == 0) return true;
  if (broken_line_ != record_line_) return false;
  const char* const newline = FindChar(input_->begin(), input_->end(), '\n');
  const char* const end = newline == nullptr ? input_->end() : newline + 1;
  input_->Consume(static_cast<size_t>(end - input_->begin()));
  ++next_line_;
  return true;
}

absl::StatusOr<bool> CsvReader::Next() {
  if (pending_) {
    pending_ = false;
    return true;
  }
  ASSIGN_OR_RETURN(const bool found, NextRecord());
  if (!found || fields_.size() == columns_.size()) return found;
  const size_t at = std::min(columns_.size(), fields_.size() - 1);
  const size_t named = std::min(columns_.size(), kNamedColumns);
  return ErrorAt(PositionOf(at),
                 absl::StrCat("wanted ", columns_.size(), " fields (",
                              absl::StrJoin(columns_.begin(),
                                            columns_.begin() + static_cast<ptrdiff_t>(named), ", "),
                              named < columns_.size() ? ", ..." : "", "), found ", fields_.size()));
}

bool CsvReader::IsPlain(const char* base, size_t begin, const uint32_t* ends) const {
  const size_t columns = columns_.size();
  for (size_t i = 0; i + 1 < columns; ++i) {
    if (base[ends[i]] == '\n') return false;
  }
  const uint32_t end = ends[columns - 1];
  if (base[end] != '\n') return false;
  // A blank line has one field, too.
  const bool blank = end == begin || (end == begin + 1 && base[begin] == '\r');
  return !blank &&
         (format_.comment.empty() || !StartsWith(base + begin, base + end, format_.comment));
}

int64_t CsvReader::NextPlain(int64_t bytes) {
  const size_t columns = columns_.size();
  if (pending_ || format_.trim || format_.separator.size() != 1 || columns == 0) return 0;
  const size_t most = std::max<size_t>(1, plain_fields_ / columns) * columns;
  plain_ends_.resize(1 + most + kSpareEnds);
  plain_ends_[0] = static_cast<uint32_t>(-1);
  plain_base_ = input_->begin();
  const auto size = std::min<size_t>(static_cast<size_t>(input_->end() - plain_base_),
                                     std::numeric_limits<uint32_t>::max());
  uint32_t* const ends = plain_ends_.data() + 1;
  const FieldEnds found = FindFieldEnds(absl::string_view(plain_base_, size), format_.separator[0],
                                        format_.quoting, ends, most);
  size_t used = 0;
  plain_records_ = 0;
  plain_ascii_ = found.ascii;
  for (size_t at = 0; at + columns <= found.count && static_cast<int64_t>(used) < bytes;) {
    if (!IsPlain(plain_base_, used, ends + at)) break;
    at += columns;
    used = ends[at - 1] + size_t{1};
    ++plain_records_;
  }
  // Bounds the cost of bytes scanned in vain by that of the records found.
  const auto fields = static_cast<size_t>(plain_records_) * columns;
  plain_fields_ = fields == most ? std::min(4 * most, kMostFields) : 2 * fields;
  record_line_ = next_line_;
  next_line_ += plain_records_;
  input_->Consume(used);
  return plain_records_;
}

FieldColumn CsvReader::plain_column(int column) const {
  const auto at = static_cast<size_t>(column);
  return FieldColumn(plain_base_, plain_ends_.data() + at, columns_.size(), plain_records_,
                     at + 1 == columns_.size(), input_->end(), plain_ascii_);
}

absl::Status CsvReader::PlainError(int64_t record, int field, absl::string_view wanted) const {
  const auto index = static_cast<size_t>(record) * columns_.size();
  const char* const begin = plain_base_ + (plain_ends_[index] + 1);
  const absl::string_view text = plain_column(field)[record];
  return ErrorAt(
      {record_line_ + record, text.data() - begin + 1},
      absl::StrCat("field ", field + 1, " (", Quoted(columns_[static_cast<size_t>(field)]),
                   "): wanted ", wanted, ", found ", Quoted(text)));
}

ByteRange CsvReader::PlainBytes(int64_t record) const {
  const size_t columns = columns_.size();
  // Ends are relative to where the first one began; the window begins behind the last one.
  const auto begin_of = [&](int64_t r) {
    return int64_t{plain_ends_[static_cast<size_t>(r) * columns] + 1u};
  };
  const auto first = static_cast<int64_t>(input_->offset()) - begin_of(plain_records_);
  return {first + begin_of(record), begin_of(record + 1) - begin_of(record)};
}

absl::Status CsvReader::More() {
  absl::Status status = input_->More();
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("line ", next_line_));
}

bool CsvReader::IsLeftOut(const char* begin, const char* end) const {
  if (!format_.comment.empty() && StartsWith(begin, end, format_.comment)) return true;
  if (!format_.trim || !IsBlank(*begin)) return false;
  return SkipBlanks(begin, end, format_.separator) == end;
}

absl::StatusOr<bool> CsvReader::NextRecord() {
  size_t scanned = 0;
  while (true) {
    const char* begin = input_->begin();
    const char* end = input_->end();
    const char* newline = FindChar(begin + scanned, end, '\n');
    if (newline == nullptr && !input_->at_end()) {
      scanned = static_cast<size_t>(end - begin);
      RETURN_IF_ERROR(More());
      continue;
    }
    if (newline == nullptr && begin == end) return false;
    const char* line_end = newline == nullptr ? end : newline;
    const size_t used = static_cast<size_t>(line_end - begin) + (newline == nullptr ? 0 : 1);
    if (line_end > begin && line_end[-1] == '\r') --line_end;
    if (line_end == begin || IsLeftOut(begin, line_end)) {
      input_->Consume(used);
      ++next_line_;
      scanned = 0;
      continue;
    }
    record_line_ = next_line_;
    broken_line_ = 0;
    quoted_record_ = format_.quoting && FindChar(begin, line_end, '"') != nullptr;
    if (quoted_record_) {
      RETURN_IF_ERROR(ReadQuoted());
      return true;
    }
    record_begin_ = begin;
    Split(absl::string_view(begin, static_cast<size_t>(line_end - begin)));
    input_->Consume(used);
    ++next_line_;
    return true;
  }
}

void CsvReader::Split(absl::string_view line) {
  fields_.clear();
  const char* p = line.data();
  const char* const end = p + line.size();
  while (true) {
    const char* stop = FindSeparator(p, end, format_.separator);
    fields_.emplace_back(p, static_cast<size_t>(stop - p));
    if (stop == end) break;
    p = stop + format_.separator.size();
  }
  if (!format_.trim) return;
  for (absl::string_view& field : fields_) field = WithoutBlanks(field);
}

absl::Status CsvReader::ReadQuoted() {
  while (true) {
    size_t used = 0;
    int64_t line = next_line_;
    ASSIGN_OR_RETURN(const Scan scan, ScanQuoted(&used, &line));
    if (scan == Scan::kDone) {
      input_->Consume(used);
      next_line_ = line;
      break;
    }
    // Rare, and the window doubles: starting over costs less than keeping the state of the scan.
    RETURN_IF_ERROR(More());
  }
  for (size_t field : escaped_) fields_[field] = Unescape(fields_[field]);
  return absl::OkStatus();
}

absl::Status CsvReader::ScanQuotedField(const char* p, int64_t* line, const char** line_start,
                                        const char** after) {
  const Position start{*line, p - *line_start + 1};
  const char* const end = input_->end();
  const char* q = p + 1;
  field_escaped_ = false;
  *after = nullptr;
  while (true) {
    const char* quote = FindChar(q, end, '"');
    for (const char* n = q; (n = FindChar(n, quote == nullptr ? end : quote, '\n')) != nullptr;) {
      ++*line;
      *line_start = ++n;
    }
    if (quote == nullptr) {
      if (!input_->at_end()) return absl::OkStatus();
      broken_line_ = -1;
      return ErrorAt(start,
                     "wanted a closing quote for the one that opens here, found the end of "
                     "the file");
    }
    if (quote + 1 == end && !input_->at_end()) return absl::OkStatus();
    if (quote + 1 != end && quote[1] == '"') {
      field_escaped_ = true;
      q = quote + 2;
      continue;
    }
    *after = quote + 1;
    return absl::OkStatus();
  }
}

absl::StatusOr<CsvReader::Scan> CsvReader::ScanQuoted(size_t* used, int64_t* line) {
  fields_.clear();
  positions_.clear();
  escaped_.clear();
  const absl::string_view separator = format_.separator;
  const char* const begin = input_->begin();
  const char* const end = input_->end();
  const char* line_start = begin;
  for (const char* p = begin;;) {
    if (format_.trim) p = SkipBlanks(p, end, separator);
    positions_.push_back({*line, p - line_start + 1});
    const char* stop = nullptr;  // the end of the field: a separator, a line end or the file's end
    if (p != end && *p == '"') {
      RETURN_IF_ERROR(ScanQuotedField(p, line, &line_start, &stop));
      if (stop == nullptr) return Scan::kNeedMore;
      if (field_escaped_) escaped_.push_back(fields_.size());
      fields_.emplace_back(p + 1, static_cast<size_t>(stop - 1 - (p + 1)));
      if (format_.trim) stop = SkipBlanks(stop, end, separator);
    } else {
      const char* newline = FindChar(p, end, '\n');
      if (newline == nullptr && !input_->at_end()) return Scan::kNeedMore;
      const char* line_end = newline == nullptr ? end : newline;
      stop = FindSeparator(p, line_end, separator);
      if (stop == line_end && stop != p && stop[-1] == '\r') --stop;
      fields_.emplace_back(p, static_cast<size_t>(stop - p));
      if (format_.trim) fields_.back() = WithoutBlanks(fields_.back());
    }
    if (!input_->at_end() &&
        static_cast<size_t>(end - stop) < std::max<size_t>(2, separator.size())) {
      return Scan::kNeedMore;
    }
    if (StartsWith(stop, end, separator)) {
      p = stop + separator.size();
      continue;
    }
    if (stop != end && *stop == '\r' && (stop + 1 == end || stop[1] == '\n')) ++stop;
    if (stop != end && *stop != '\n') {
      broken_line_ = *line;
      return ErrorAt({*line, stop - line_start + 1},
                     absl::StrCat("wanted the separator ", Quoted(separator),
                                  " or the end of the line after a closing quote, found ",
                                  Quoted(absl::string_view(stop, 1))));
    }
    *used = static_cast<size_t>(stop - begin) + (stop == end ? 0 : 1);
    ++*line;
    return Scan::kDone;
  }
}

CsvReader::Position CsvReader::PositionOf(size_t field) const {
  if (quoted_record_) return positions_[field];
  return {record_line_, fields_[field].data() - record_begin_ + 1};
}

absl::Status CsvReader::ErrorAt(Position position, absl::string_view message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ":", position.line, ":", position.column, ": ", message));
}

absl::Status CsvReader::FieldError(int field, absl::string_view wanted) const {
  const size_t i = static_cast<size_t>(field);
  return ErrorAt(PositionOf(i), absl::StrCat("field ", field + 1, " (", Quoted(columns_[i]),
                                             "): wanted ", wanted, ", found ", Quoted(fields_[i])));
}

}  // namespace coxswain::data
