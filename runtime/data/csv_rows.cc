// Which columns are read; rows one after the other; rows of which some are passed over.
#include "runtime/data/csv_rows.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/row_probe.h"

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

void AddToChain(const Fields& values, const std::vector<FieldColumn>& columns, int64_t row,
                RowChain* chain) {
  for (const FieldColumn& column : columns) chain->Add(values.Value(column[row]));
  chain->EndRow();
}

std::vector<FieldColumn> PlainColumns(const CsvReader& reader, const std::vector<int>& numbers) {
  std::vector<FieldColumn> columns;
  for (const int number : numbers) columns.push_back(reader.plain_column(number));
  return columns;
}

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
    const std::vector<FieldColumn> columns = PlainColumns(*reader, chained);
    for (int64_t row = 0; row < records; ++row) {
      AddToChain(values, columns, row, &rows->chain());
    }
  }
  return rows->EndLines(reader->input(), reader->plain_line(), records);
}

absl::StatusOr<Sinks> FindSinks(const CsvReader& reader,
                                const std::vector<TableRows::Binding>& bindings) {
  Sinks sinks;
  for (const TableRows::Binding& binding : bindings) {
    ASSIGN_OR_RETURN(const int column, reader.FindColumn(binding.column));
    sinks.emplace_back(column, binding.sink.get());
  }
  return sinks;
}

// Reads records of which some may be passed over: each is tried by the probe's sinks before those
// of the rows get any of it.
class PassingOver {
 public:
  PassingOver(const Fields& values, const Sinks& sinks, const std::vector<int>& chained,
              CsvReader* reader, TableRows* rows)
      : values_(values), sinks_(sinks), chained_(chained), reader_(*reader), rows_(*rows) {}
  absl::Status Read();

 private:
  static constexpr int64_t kMostTried = 65536;

  absl::Status ReadPlain(int64_t records);
  // Those of them that are good, one by one.
  absl::Status PickPlain(int64_t records);
  absl::Status ReadNext(bool* found);
  // Adds a bad row, after which the probe has new sinks.
  absl::Status PassOver(const ByteRange& bytes, const absl::Status& wrong);
  absl::Status PassOverNext(int64_t begin, const absl::Status& wrong);
  absl::Status FindProbe() {
    ASSIGN_OR_RETURN(tried_by_, FindSinks(reader_, rows_.probe()->bindings()));
    tried_ = 0;
    return absl::OkStatus();
  }
  absl::Status Renew() {
    RETURN_IF_ERROR(rows_.probe()->Renew());
    return FindProbe();
  }
  int64_t offset() { return static_cast<int64_t>(reader_.input()->offset()); }

  const Fields& values_;
  const Sinks& sinks_;
  const std::vector<int>& chained_;
  CsvReader& reader_;
  TableRows& rows_;
  Sinks tried_by_;
  int64_t tried_ = 0;
};

absl::Status PassingOver::PassOver(const ByteRange& bytes, const absl::Status& wrong) {
  RETURN_IF_ERROR(rows_.AddBadRow(reader_.input(), bytes, wrong));
  return FindProbe();
}

// Of the record that was read last.
absl::Status PassingOver::PassOverNext(int64_t begin, const absl::Status& wrong) {
  RETURN_IF_ERROR(PassOver({begin, offset() - begin}, wrong));
  // A block may end here as it may behind any row, however many are read at once.
  return rows_.EndLinesBut(reader_.input(), reader_.next_line(), 0, {});
}

absl::Status PassingOver::ReadPlain(int64_t records) {
  for (const auto& [column, sink] : tried_by_) {
    if (values_.AppendTo(sink, reader_.plain_column(column)) < 0) continue;
    RETURN_IF_ERROR(Renew());
    return PickPlain(records);
  }
  tried_ += records;
  return AppendPlain(values_, sinks_, chained_, records, &reader_, &rows_);
}

absl::Status PassingOver::PickPlain(int64_t records) {
  const std::vector<FieldColumn> chained = PlainColumns(reader_, chained_);
  std::vector<int64_t> bad;
  const auto append = [&](const Sinks& sinks, int64_t record) -> absl::Status {
    for (const auto& [column, sink] : sinks) {
      if (values_.AppendTo(sink, reader_.plain_column(column)[record])) continue;
      return reader_.PlainError(record, column, sink->Wanted());
    }
    return absl::OkStatus();
  };
  for (int64_t record = 0; record < records; ++record) {
    if (const absl::Status wrong = append(tried_by_, record); !wrong.ok()) {
      bad.push_back(record);
      RETURN_IF_ERROR(PassOver(reader_.PlainBytes(record), wrong));
      continue;
    }
    RETURN_IF_ERROR(append(sinks_, record));
    if (rows_.chained()) AddToChain(values_, chained, record, &rows_.chain());
  }
  return rows_.EndLinesBut(reader_.input(), reader_.plain_line(), records, bad);
}

absl::Status PassingOver::ReadNext(bool* found) {
  const int64_t begin = offset();
  const auto next = reader_.Next();
  if (!next.ok()) {
    *found = true;
    if (!absl::IsInvalidArgument(next.status()) || !reader_.PassOver()) return next.status();
    return PassOverNext(begin, next.status());
  }
  *found = *next;
  if (!*found) return absl::OkStatus();
  const absl::Span<const absl::string_view> fields = reader_.fields();
  const auto append = [&](const Sinks& sinks) -> absl::Status {
    for (const auto& [column, sink] : sinks) {
      if (values_.AppendTo(sink, fields[static_cast<size_t>(column)])) continue;
      return reader_.FieldError(column, sink->Wanted());
    }
    return absl::OkStatus();
  };
  if (const absl::Status wrong = append(tried_by_); !wrong.ok()) {
    return PassOverNext(begin, wrong);
  }
  ++tried_;
  RETURN_IF_ERROR(append(sinks_));
  for (const int column : chained_) {
    rows_.chain().Add(values_.Value(fields[static_cast<size_t>(column)]));
  }
  return rows_.EndRow(reader_.input(), reader_.line(), reader_.next_line());
}

absl::Status PassingOver::Read() {
  RETURN_IF_ERROR(FindProbe());
  while (true) {
    if (tried_ > kMostTried) RETURN_IF_ERROR(Renew());
    if (const int64_t plain = reader_.NextPlain(rows_.bytes_left(*reader_.input())); plain > 0) {
      RETURN_IF_ERROR(ReadPlain(plain));
      continue;
    }
    bool found = false;
    RETURN_IF_ERROR(ReadNext(&found));
    if (!found) return rows_.EndFile(reader_.input());
  }
}

absl::Status ReadRows(const proto::CsvOptions& options, CsvReader* reader, TableRows* rows) {
  const Fields values(options);
  ASSIGN_OR_RETURN(const Sinks sinks, FindSinks(*reader, rows->bindings()));
  ASSIGN_OR_RETURN(const std::vector<int> chained, ColumnsToChain(*reader, *rows));
  RETURN_IF_ERROR(rows->StartFile(reader->input(), reader->columns(), reader->next_line()));
  if (rows->probe() != nullptr) return PassingOver(values, sinks, chained, reader, rows).Read();
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
