#include "runtime/data/table_rows.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/data/row_probe.h"
#include "runtime/data/stream/stream_options.h"

namespace coxswain::data {
namespace {

constexpr int64_t kMaxRows = std::numeric_limits<uint32_t>::max() - 1;

absl::Status TooManyRows(const std::string& path) {
  return absl::ResourceExhaustedError(absl::StrCat(
      path, ": wanted at most ", kMaxRows,
      " rows in a data set that is held in memory, found more; dataset.streaming has no limit"));
}

}  // namespace

absl::Status TableRows::StartFile(InputFile* input, absl::Span<const std::string> columns,
                                  int64_t next_line) {
  for (const auto& [column, path] : joined_) {
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        input->path(), ": wanted one column ", Quoted(column), ", found it here and in ", path,
        ", which is joined; a prefix (dataset.join) tells them apart"));
  }
  return listener_ == nullptr ? absl::OkStatus() : listener_->OnFile(input, columns, next_line);
}

absl::Status TableRows::CheckFound(const std::string& path) const {
  for (const auto& [column, found] : found_) {
    if (found) continue;
    return absl::NotFoundError(absl::StrCat(path, ": wanted a key ", Quoted(column),
                                            ", found it in no row; ",
                                            Alternatives(column, names_)));
  }
  return absl::OkStatus();
}

absl::Status TableRows::EndRow(InputFile* input, int64_t line, int64_t next_line) {
  table_->places.AddRow(line);
  chain_.EndRow();
  if (++table_->rows > kMaxRows) return TooManyRows(input->path());
  return listener_ == nullptr ? absl::OkStatus() : listener_->OnRow(input, next_line);
}

absl::Status TableRows::PassOverBadRows(const proto::DatasetSpec& spec, int64_t most) {
  most_bad_ = most;
  ASSIGN_OR_RETURN(probe_, RowProbe::Create(spec, table_->side_tables));
  return absl::OkStatus();
}

absl::Status TableRows::AddBadRow(InputFile* input, const ByteRange& bytes,
                                  const absl::Status& wrong) {
  const std::string what(wrong.message());
  bad_rows_.Add(what);
  if (listener_ != nullptr) listener_->OnBadRow(input, bytes, wrong);
  if (bad_rows_.count > most_bad_) return TooManyBadRows(what, bad_rows_.count, most_bad_);
  return probe_->Renew();
}

absl::Status TableRows::CheckGroup(const std::string& path, int64_t group, int64_t bytes) const {
  if (listener_ == nullptr || bytes <= listener_->most_group_bytes()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      path, ": row group ", group, ": the columns that are read have ", BytesText(bytes),
      ", and a group is read as a whole: wanted at most dataset.memory (",
      BytesText(listener_->most_group_bytes()),
      "): write the file with smaller row groups, or raise dataset.memory"));
}

absl::Status TableRows::EndLines(InputFile* input, int64_t line, int64_t rows) {
  table_->places.AddRows(line, rows);
  table_->rows += rows;
  if (table_->rows > kMaxRows) return TooManyRows(input->path());
  return listener_ == nullptr ? absl::OkStatus() : listener_->OnRow(input, line + rows);
}

absl::Status TableRows::EndLinesBut(InputFile* input, int64_t line, int64_t lines,
                                    absl::Span<const int64_t> bad) {
  int64_t next = 0;
  const auto add = [&](int64_t end) {
    if (end > next) table_->places.AddRows(line + next, end - next);
    table_->rows += end - next;
    next = end + 1;
  };
  for (const int64_t passed : bad) add(passed);
  add(lines);
  if (table_->rows > kMaxRows) return TooManyRows(input->path());
  return listener_ == nullptr ? absl::OkStatus() : listener_->OnRow(input, line + lines);
}

absl::Status TableRows::EndWords(InputFile* input, int64_t words, int64_t next_line) {
  table_->rows += words;
  if (table_->rows > kMaxRows) return TooManyRows(input->path());
  return listener_ == nullptr ? absl::OkStatus() : listener_->OnRow(input, next_line);
}

absl::Status TableRows::EndRows(const std::string& path, int64_t line, int64_t rows) {
  table_->places.AddRows(line, rows);
  table_->rows += rows;
  if (table_->rows > kMaxRows) return TooManyRows(path);
  return listener_ == nullptr ? absl::OkStatus() : listener_->OnGroupRows(rows);
}

}  // namespace coxswain::data
