#include "runtime/data/row_blocks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/criteo.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/csv_rows.h"

namespace coxswain::data {
namespace {

absl::StatusOr<std::unique_ptr<InputFile>> OpenInput(const std::string& path) {
  if (path != kStandardInput) return InputFile::Open(path);
  const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) {
    return absl::UnavailableError(absl::StrCat("stdin: cannot read: ", std::strerror(errno)));
  }
  return InputFile::OfDescriptor("stdin", fd);
}

bool IsComment(const proto::CsvOptions& csv, absl::string_view line) {
  return !csv.comment().empty() && absl::StartsWith(line, csv.comment());
}

// Whether the line, without its end, holds no CSV row.
bool IsLeftOut(const proto::CsvOptions& csv, absl::string_view line) {
  if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
  if (line.empty() || IsComment(csv, line)) return true;
  return csv.trim() && csv.separator().find_first_of(" \t") == std::string::npos &&
         line.find_first_not_of(" \t") == absl::string_view::npos;
}

// The end of the field that begins at `at`, which is the position of its separator or line end;
// quoted fields are as in CsvReader. npos: the field goes on after the text.
size_t FieldEnd(const proto::CsvOptions& csv, absl::string_view text, size_t at) {
  const auto is_blank = [&] { return text[at] == ' ' || text[at] == '\t'; };
  while (csv.trim() && at < text.size() && is_blank() &&
         !absl::StartsWith(text.substr(at), csv.separator())) {
    ++at;
  }
  if (at < text.size() && text[at] == '"') {
    for (size_t quote = text.find('"', at + 1);; quote = text.find('"', quote + 2)) {
      if (quote == absl::string_view::npos) return quote;
      if (quote + 1 >= text.size() || text[quote + 1] != '"') {
        at = quote + 1;
        break;
      }
    }
  }
  const size_t line = text.find('\n', at);
  if (line == absl::string_view::npos) return line;
  const size_t separator = text.substr(at, line - at).find(csv.separator());
  return separator == absl::string_view::npos ? line : at + separator;
}

// The end of the record that begins at `at`, including its line end. npos: the record is
// incomplete.
size_t RecordEnd(const proto::CsvOptions& csv, absl::string_view text, size_t at) {
  const size_t line = text.find('\n', at);
  if (line == absl::string_view::npos) return line;
  const absl::string_view first = text.substr(at, line - at);
  if (!csv.quoting() || IsComment(csv, first) || first.find('"') == absl::string_view::npos) {
    return line + 1;
  }
  while (true) {
    const size_t end = FieldEnd(csv, text, at);
    if (end == absl::string_view::npos) return end;
    if (!absl::StartsWith(text.substr(end), csv.separator())) return end + 1;
    at = end + csv.separator().size();
  }
}

}  // namespace

size_t WholeRows(const proto::CsvOptions& csv, absl::string_view text, int64_t rows) {
  if (rows == 0 && (!csv.quoting() || text.find('"') == absl::string_view::npos)) {
    const size_t last = text.rfind('\n');
    return last == absl::string_view::npos ? 0 : last + 1;
  }
  size_t whole = 0;
  for (int64_t found = 0; rows == 0 || found < rows; ++found) {
    const size_t end = RecordEnd(csv, text, whole);
    if (end == absl::string_view::npos) break;
    whole = end;
  }
  return whole;
}

absl::StatusOr<std::unique_ptr<RowBlocks>> RowBlocks::Open(const proto::DatasetSpec& spec,
                                                           const std::string& path,
                                                           size_t block_bytes) {
  if (!FormatOf(spec).has_lines()) {
    return absl::InvalidArgumentError(
        absl::StrCat("files of the format ", spec.format(), " have no rows of text"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> input, OpenInput(path));
  std::unique_ptr<RowBlocks> blocks(new RowBlocks(spec.csv(), std::move(input), block_bytes));
  if (blocks->has_columns()) RETURN_IF_ERROR(blocks->ReadHeader(spec));
  return blocks;
}

absl::Status RowBlocks::More() {
  const absl::Status status = input_->More();
  return status.ok() ? status : Annotate(status, absl::StrCat("line ", line_));
}

FileBlock RowBlocks::Take(size_t bytes) {
  FileBlock block;
  block.path = input_->path();
  block.bytes = {input_->begin(), input_->begin() + bytes};
  block.first_line = line_;
  block.columns = columns_;
  line_ += std::count(block.bytes.begin(), block.bytes.end(), '\n');
  input_->Consume(bytes);
  return block;
}

absl::string_view RowBlocks::Window() const {
  return {input_->begin(), static_cast<size_t>(input_->end() - input_->begin())};
}

// Skips the lines to skip, and then lines that hold no record: blank lines and comments.
absl::Status RowBlocks::SkipToFirstRow() {
  for (int64_t skipped = 0;;) {
    const size_t line = Window().find('\n');
    if (line == absl::string_view::npos && !input_->at_end()) {
      RETURN_IF_ERROR(More());
      continue;
    }
    const absl::string_view first = Window().substr(0, line);
    if (first.empty() && line == absl::string_view::npos) return absl::OkStatus();
    if (skipped >= csv_.skip_lines() && !IsLeftOut(csv_, first)) return absl::OkStatus();
    ++skipped;
    Take(line == absl::string_view::npos ? first.size() : line + 1);
  }
}

absl::Status RowBlocks::ReadHeader(const proto::DatasetSpec& spec) {
  const auto text = [this] { return Window(); };
  RETURN_IF_ERROR(SkipToFirstRow());
  while (WholeRows(csv_, text(), 1) == 0 && !input_->at_end()) RETURN_IF_ERROR(More());
  const size_t whole = WholeRows(csv_, text(), 1);
  const absl::string_view first = text().substr(0, whole > 0 ? whole : text().size());
  columns_ = FormatOf(spec).FixedColumns(first);
  if (!columns_.empty()) return absl::OkStatus();
  CsvFormat format = CsvFormatOf(csv_);
  format.skip_lines = 0;  // already skipped
  ASSIGN_OR_RETURN(
      const auto reader,
      CsvReader::OfInput(InputFile::OfBytes(path(), {first.begin(), first.end()}), format));
  columns_ = reader->columns();
  if (csv_.header()) Take(first.size());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<FileBlock>> RowBlocks::Next() {
  while (static_cast<size_t>(input_->end() - input_->begin()) < block_bytes_ && !input_->at_end()) {
    RETURN_IF_ERROR(More());
  }
  while (true) {
    const auto size = static_cast<size_t>(input_->end() - input_->begin());
    if (size == 0) return std::optional<FileBlock>();
    const absl::string_view text(input_->begin(), size);
    // The window may have grown past the block's size.
    size_t whole = WholeRows(csv_, text.substr(0, std::max(block_bytes_, size / 2)));
    if (whole == 0) whole = WholeRows(csv_, text, 1);
    if (input_->at_end() && size <= block_bytes_) whole = size;  // the last line may lack its end
    if (whole == 0 && input_->at_end()) whole = size;
    if (whole > 0) return std::optional<FileBlock>(Take(whole));
    RETURN_IF_ERROR(More());
  }
}

}  // namespace coxswain::data
