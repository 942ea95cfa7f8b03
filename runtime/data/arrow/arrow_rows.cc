// Which columns are read and where their values go; then groups, and the rows of each.
#include "runtime/data/arrow/arrow_rows.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/arrow/arrow_file.h"
#include "runtime/data/arrow/open_arrow_files.h"
#include "runtime/data/column_values.h"
#include "runtime/data/data_file.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/kept_files.h"
#include "runtime/data/stream/reads_ahead.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

// As many as a row group may have without being read in pieces: what Arrow has in memory of
// it meanwhile is a few MiB a column.
constexpr int64_t kBatchRows = 65536;
// Bytes of the next group that are asked for while one is read, and their share of what a group may
// have: this much memory is beside all that the reader is allowed.
constexpr int64_t kMostAhead = int64_t{64} << 20, kAheadOfGroup = 8;
// What stands in the chain of rows for a value that is missing.
constexpr uint64_t kMissingInChain = 0x6d697373696e6721u;

// The error of a block that cannot be read. A store that does not answer says nothing of the file.
absl::Status WhyUnread(const FileBlock& block, const absl::Status& failed) {
  if (!block.changed) return failed;
  // What the file says of itself is not what it said when it was indexed.
  if (absl::IsInvalidArgument(failed) || absl::IsNotFound(failed)) return block.changed();
  // It may have become shorter after it was opened.
  return IsOfOtherSize(block.path, block.file_bytes) ? block.changed() : failed;
}

class RowsReader {
 public:
  RowsReader(ArrowFile* file, TableRows* rows) : file_(*file), rows_(*rows) {}
  // Finds the columns.
  absl::Status Start();
  // All rows of these groups; the next one is asked for while one is read.
  absl::Status ReadGroups(int64_t first, int64_t end, ReadsAhead* ahead);
  absl::StatusOr<std::vector<std::vector<ByteRange>>> FindGroups();
  absl::Status ReadBlock(const FileBlock& block);

 private:
  absl::Status LoadBlock(const FileBlock& block);
  absl::Status CheckType(const TableRows::Binding& binding, int32_t field) const;
  void AskFor(int64_t first, int64_t end, ReadsAhead* ahead);
  // Rows [first, end) of a group whose bytes are loaded; `line` is the number of its first row.
  absl::Status ReadRows(int64_t group, int64_t first, int64_t end, int64_t line);
  // Rows from `first` on of the group.
  absl::Status Append(const CoxArrowColumn* columns, int64_t group, int64_t first, int64_t begin,
                      int64_t count, int64_t line);
  void AddToChain(const CoxArrowColumn* columns, int64_t begin, int64_t count);
  void AddToChain(const ColumnValues& values, int64_t value);

  ArrowFile& file_;
  TableRows& rows_;
  uint64_t batch_ = 0;
  std::vector<int32_t> fields_;  // that are read, ascending
  std::vector<size_t> columns_;  // by binding: which of them
  std::vector<size_t> chained_;  // in the order of their names
};

absl::Status RowsReader::CheckType(const TableRows::Binding& binding, int32_t field) const {
  const CoxArrowField& type = file_.fields()[static_cast<size_t>(field)];
  const auto error = [&](absl::string_view wanted) {
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": column ",
                                                   Quoted(binding.column), ": wanted ", wanted,
                                                   ", found ", type.type));
  };
  if (type.kind == COX_ARROW_OTHER) return error("numbers, texts, times, or lists of them");
  if (type.is_list != 0 && !binding.sink->TakesLists()) {
    return error("one value a row (a feature of several has multi_valued: true)");
  }
  return absl::OkStatus();
}

absl::Status RowsReader::Start() {
  std::vector<int32_t> of_binding;
  std::set<std::string> names;
  for (const TableRows::Binding& binding : rows_.bindings()) {
    ASSIGN_OR_RETURN(const int32_t field, file_.FindField(binding.column));
    RETURN_IF_ERROR(CheckType(binding, field));
    of_binding.push_back(field);
    names.insert(binding.column);
  }
  fields_ = of_binding;
  std::sort(fields_.begin(), fields_.end());
  fields_.erase(std::unique(fields_.begin(), fields_.end()), fields_.end());
  const auto column = [&](int32_t field) {
    return static_cast<size_t>(std::lower_bound(fields_.begin(), fields_.end(), field) -
                               fields_.begin());
  };
  for (const int32_t field : of_binding) columns_.push_back(column(field));
  if (!rows_.chained()) return absl::OkStatus();
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const int32_t field, file_.FindField(name));
    chained_.push_back(column(field));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<ByteRange>>> RowsReader::FindGroups() {
  std::vector<std::vector<ByteRange>> found;
  for (int64_t group = 0; group < file_.groups(); ++group) {
    ASSIGN_OR_RETURN(found.emplace_back(), file_.GroupRequests(group, fields_));
  }
  return found;
}

// What cannot be asked for is left to who reads it.
void RowsReader::AskFor(int64_t first, int64_t end, ReadsAhead* ahead) {
  std::vector<ReadsAhead::Range> wanted;
  for (int64_t group = first; group < std::min(end, file_.groups()); ++group) {
    const auto ranges = file_.GroupRequests(group, fields_);
    if (!ranges.ok()) break;
    for (const ByteRange& range : *ranges) {
      wanted.push_back({file_.path(), range.offset, range.bytes});
    }
  }
  ahead->Want(wanted);
}

absl::Status RowsReader::ReadGroups(int64_t first, int64_t end, ReadsAhead* ahead) {
  int64_t all = 0;
  std::vector<int64_t> sizes;
  for (int64_t group = 0; group < file_.groups(); ++group) {
    ASSIGN_OR_RETURN(sizes.emplace_back(), file_.Rows(group));
    all += sizes.back();
  }
  int64_t line = 1;
  for (int64_t group = 0; group < file_.groups(); ++group) {
    const int64_t rows = sizes[static_cast<size_t>(group)];
    if (rows == 0) continue;
    if (group < first || group >= end) {
      line += rows;
      continue;
    }
    ASSIGN_OR_RETURN(const int64_t bytes, file_.GroupBytes(group, fields_));
    RETURN_IF_ERROR(rows_.CheckGroup(file_.path(), group, bytes));
    if (env::IsRemotePath(file_.path())) AskFor(group, std::min(end, group + 2), ahead);
    ASSIGN_OR_RETURN(const ArrowFile::Group loaded, file_.LoadGroup(group, fields_));
    rows_.AddContent(loaded.hash);
    const double share = static_cast<double>(rows) / static_cast<double>(all);
    const RowGroup place = {
        file_.path(), group,
        rows,         line,
        loaded.hash,  static_cast<int64_t>(static_cast<double>(file_.bytes()) * share)};
    RETURN_IF_ERROR(rows_.StartGroup(place));
    RETURN_IF_ERROR(ReadRows(group, 0, rows, line));
    line += rows;
  }
  return absl::OkStatus();
}

absl::Status RowsReader::ReadBlock(const FileBlock& block) {
  if (block.rows == 0) return absl::OkStatus();
  RETURN_IF_ERROR(LoadBlock(block));
  return ReadRows(block.group, block.group_row, block.group_row + block.rows,
                  block.first_line - block.group_row);
}

// Errors: also for a group that is not the one that was indexed.
absl::Status RowsReader::LoadBlock(const FileBlock& block) {
  const auto wrong = [&](absl::string_view what) {
    return block.changed ? block.changed()
                         : absl::DataLossError(
                               absl::StrCat(file_.path(), ": row group ", block.group, ": ", what));
  };
  if (block.group >= file_.groups()) return wrong("there is none of that number");
  const auto loaded = file_.LoadGroup(block.group, fields_);
  if (!loaded.ok()) return WhyUnread(block, loaded.status());
  if (block.changed && loaded->hash != block.hash) return block.changed();
  if (block.group_row + block.rows <= loaded->rows) return absl::OkStatus();
  return wrong("it has fewer rows");
}

absl::Status RowsReader::ReadRows(int64_t group, int64_t first, int64_t end, int64_t line) {
  int64_t read = 0;
  absl::Status status = file_.ReadGroup(
      group, fields_, kBatchRows, [&](const CoxArrowColumn* columns, int64_t rows) -> absl::Status {
        batch_ = rows_.NewBatch();
        // Parquet has no way into the middle of a group: what comes before is left out.
        int64_t begin = std::min(rows, std::max<int64_t>(0, first - read));
        const int64_t last = std::min(rows, end - read);
        while (begin < last) {
          const int64_t count = std::min(rows_.piece_rows(), last - begin);
          RETURN_IF_ERROR(Append(columns, group, read + begin, begin, count, line));
          begin += count;
        }
        read += rows;
        // Nothing behind `end` is wanted.
        return read >= end ? absl::CancelledError() : absl::OkStatus();
      });
  if (absl::IsCancelled(status) && read >= end) status = absl::OkStatus();
  RETURN_IF_ERROR(status);
  if (read >= end) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(file_.path(), ": row group ", group, ": wanted ", end, " rows, found ", read));
}

absl::Status RowsReader::Append(const CoxArrowColumn* columns, int64_t group, int64_t first,
                                int64_t begin, int64_t count, int64_t line) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const TableRows::Binding& binding = rows_.bindings()[i];
    const ColumnValues values = ColumnValues(columns[columns_[i]], batch_).Slice(begin, count);
    const int64_t wrong = binding.sink->AppendColumn(values);
    if (wrong < 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": row group ", group, ", row ", first + wrong + 1, ", column ",
                     Quoted(binding.column), ": wanted ", binding.sink->Wanted(), ", found ",
                     values.Describe(wrong)));
  }
  if (rows_.chained()) AddToChain(columns, begin, count);
  return rows_.EndRows(file_.path(), line + first, count);
}

void RowsReader::AddToChain(const CoxArrowColumn* columns, int64_t begin, int64_t count) {
  for (int64_t row = begin; row < begin + count; ++row) {
    for (const size_t column : chained_) {
      const ColumnValues values(columns[column]);
      const ColumnValues::Range range = values.Of(row);
      if (values.has_lists()) {
        rows_.chain().AddNumber(static_cast<uint64_t>(range.end - range.begin));
      }
      for (int64_t i = range.begin; i < range.end; ++i) AddToChain(values, i);
    }
    rows_.chain().EndRow();
  }
}

void RowsReader::AddToChain(const ColumnValues& values, int64_t value) {
  const int64_t entry = values.Entry(value);
  if (entry == ColumnValues::kMissing) {
    rows_.chain().AddNumber(kMissingInChain);
  } else if (values.has_texts()) {
    rows_.chain().Add(values.Text(entry, nullptr));
  } else {
    rows_.chain().AddNumber(values.Bits(entry));
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadArrowColumns(CoxArrowFormat format,
                                                          const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, ArrowFile::Open(path, format));
  std::vector<std::string> names;
  for (const CoxArrowField& field : file->fields()) names.emplace_back(field.name);
  return names;
}

absl::StatusOr<std::vector<int64_t>> ReadArrowGroups(CoxArrowFormat format,
                                                     const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, ArrowFile::Open(path, format));
  std::vector<int64_t> sizes;
  for (int64_t group = 0; group < file->groups(); ++group) {
    ASSIGN_OR_RETURN(sizes.emplace_back(), file->Rows(group));
  }
  return sizes;
}

absl::StatusOr<std::vector<std::vector<ByteRange>>> FindArrowGroups(CoxArrowFormat format,
                                                                    const std::string& path,
                                                                    OpenArrowFiles* open_files,
                                                                    TableRows* rows) {
  ASSIGN_OR_RETURN(OpenArrowFiles::File file, open_files->Take(path, format));
  RowsReader reader(file.file.get(), rows);
  RETURN_IF_ERROR(reader.Start());
  auto found = reader.FindGroups();
  if (found.ok()) open_files->GiveBack(std::move(file));
  return found;
}

absl::Status ReadArrowRows(CoxArrowFormat format, const std::string& path, TableRows* rows) {
  return ReadArrowGroupRows(format, path, 0, std::numeric_limits<int64_t>::max(), rows);
}

absl::Status ReadArrowGroupRows(CoxArrowFormat format, const std::string& path, int64_t first,
                                int64_t end, TableRows* rows) {
  KeptFiles kept;
  ReadsAhead ahead(&kept, std::min(kMostAhead, rows->most_group_bytes() / kAheadOfGroup));
  ASSIGN_OR_RETURN(const auto file, ArrowFile::Open(path, format, InputOf(&kept, &ahead)));
  RowsReader reader(file.get(), rows);
  RETURN_IF_ERROR(reader.Start());
  return reader.ReadGroups(first, end, &ahead);
}

absl::Status ReadArrowBlock(CoxArrowFormat format, const FileBlock& block, TableRows* rows) {
  OpenArrowFiles none;
  OpenArrowFiles& files = block.open_files != nullptr ? *block.open_files : none;
  auto file = files.Take(block.path, format);
  // It was one of this format when it was indexed.
  const bool indexed = block.changed != nullptr;
  if (indexed && absl::IsInvalidArgument(file.status())) return block.changed();
  RETURN_IF_ERROR(file.status());
  if (indexed && file->file->bytes() != block.file_bytes) return block.changed();
  RowsReader reader(file->file.get(), rows);
  const absl::Status started = reader.Start();
  if (!started.ok()) return indexed ? block.changed() : started;
  RETURN_IF_ERROR(reader.ReadBlock(block));
  files.GiveBack(*std::move(file));
  return absl::OkStatus();
}

}  // namespace coxswain::data
