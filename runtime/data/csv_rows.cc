#include "runtime/data/csv_rows.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/csv_reader.h"

namespace coxswain::data {
namespace {

// Columns are found by name: the order of features and of columns does not matter, and columns that
// the job does not read are ignored.
absl::StatusOr<std::vector<int>> ColumnsToChain(const CsvReader& reader, const TableRows& rows) {
  std::set<std::string> names;
  for (const TableRows::Binding& binding : rows.bindings()) names.insert(binding.column);
  std::vector<int> columns;
  if (!rows.chained()) return columns;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const int column, reader.FindColumn(name));
    columns.push_back(column);
  }
  return columns;
}

// The fields of a record, with missing values replaced by empty fields.
class Fields {
 public:
  explicit Fields(const proto::CsvOptions& options) : options_(options) {}

  bool AppendTo(FieldSink* sink, absl::string_view field) const {
    return IsMissingValue(options_, field) ? sink->AppendMissing() : sink->Append(field);
  }
  // The first row whose field is not of the form that the sink wants, or -1.
  int64_t AppendTo(FieldSink* sink, const FieldColumn& fields) const {
    if (options_.missing_values().empty()) return sink->AppendFields(fields);
    for (int64_t row = 0; row < fields.rows(); ++row) {
      if (!AppendTo(sink, fields[row])) return row;
    }
    return -1;
  }
  absl::string_view Value(absl::string_view field) const {
    return IsMissingValue(options_, field) ? absl::string_view() : field;
  }

 private:
  const proto::CsvOptions& options_;
};

using Sinks = std::vector<std::pair<int, FieldSink*>>;  // and the number of each one's column

// The records that CsvReader::NextPlain found, column by column.
absl::Status AppendPlain(const Fields& values, const Sinks& sinks, const std::vector<int>& chained,
                         int64_t records, CsvReader* reader, TableRows* rows) {
  absl::Status wrong;
  int64_t good = records;  // records before the first error
  for (const auto& [column, sink] : sinks) {
    const int64_t bad = values.AppendTo(sink, reader->plain_column(column).First(good));
    if (bad < 0) continue;
    good = bad;
    wrong = reader->PlainError(bad, column, sink->Wanted());
  }
  RETURN_IF_ERROR(wrong);
  if (rows->chained()) {
    std::vector<FieldColumn> columns;
    for (const int column : chained) columns.push_back(reader->plain_column(column));
    for (int64_t row = 0; row < records; ++row) {
      for (const FieldColumn& column : columns) rows->chain().Add(values.Value(column[row]));
      rows->chain().EndRow();
    }
  }
  return rows->EndLines(reader->input(), reader->plain_line(), records);
}

absl::Status ReadRows(const proto::CsvOptions& options, CsvReader* reader, TableRows* rows) {
  const Fields values(options);
  Sinks sinks;
  for (const TableRows::Binding& binding : rows->bindings()) {
    ASSIGN_OR_RETURN(const int column, reader->FindColumn(binding.column));
    sinks.emplace_back(column, binding.sink.get());
  }
  ASSIGN_OR_RETURN(const std::vector<int> chained, ColumnsToChain(*reader, *rows));
  RETURN_IF_ERROR(rows->StartFile(reader->input(), reader->columns(), reader->next_line()));
  while (true) {
    if (const int64_t plain = reader->NextPlain(rows->bytes_left(*reader->input())); plain > 0) {
      RETURN_IF_ERROR(AppendPlain(values, sinks, chained, plain, reader, rows));
      continue;
    }
    ASSIGN_OR_RETURN(const bool found, reader->Next());
    if (!found) return rows->EndFile(reader->input());
    const absl::Span<const absl::string_view> fields = reader->fields();
    for (const auto& [column, sink] : sinks) {
      if (!values.AppendTo(sink, fields[static_cast<size_t>(column)])) {
        return reader->FieldError(column, sink->Wanted());
      }
    }
    for (const int column : chained) {
      rows->chain().Add(values.Value(fields[static_cast<size_t>(column)]));
    }
    RETURN_IF_ERROR(rows->EndRow(reader->input(), reader->line(), reader->next_line()));
  }
}

}  // namespace

// There are few: they are compared one by one.
bool IsMissingValue(const proto::CsvOptions& options, absl::string_view field) {
  const auto& missing = options.missing_values();
  return std::any_of(missing.begin(), missing.end(),
                     [&](const std::string& value) { return field == value; });
}

CsvFormat CsvFormatOf(const proto::CsvOptions& options) {
  CsvFormat format;
  format.separator = options.separator();
  format.header = options.header();
  format.columns = {options.columns().begin(), options.columns().end()};
  format.quoting = options.quoting();
  format.skip_lines = options.skip_lines();
  format.comment = options.comment();
  format.trim = options.trim();
  return format;
}

absl::Status ReadCsvRows(const proto::CsvOptions& options, const std::string& path,
                         TableRows* rows) {
  ASSIGN_OR_RETURN(std::unique_ptr<CsvReader> reader, CsvReader::Open(path, CsvFormatOf(options)));
  RETURN_IF_ERROR(ReadRows(options, reader.get(), rows));
  rows->AddContent(reader->content_hash());
  return absl::OkStatus();
}

absl::Status ReadCsvBlock(const proto::CsvOptions& options, FileBlock block, TableRows* rows) {
  auto input = InputFile::OfBytes(block.path, std::move(block.bytes));
  const auto reader = CsvReader::OfBlock(std::move(input), CsvFormatOf(options),
                                         std::move(block.columns), block.first_line);
  return ReadRows(options, reader.get(), rows);
}

}  // namespace coxswain::data
