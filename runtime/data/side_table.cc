// Reading a side table from its file, the table itself, the columns that a spec reads, and all side
// tables together.
#include "runtime/data/side_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/status.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_file.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/utf8.h"

namespace coxswain::data {

namespace {

// Memory of an entry of the map, which is between half and seven eighths full. A key that is too
// long for a string's inline buffer is stored separately.
int64_t BytesOfKey(absl::string_view key) {
  constexpr size_t kInString = 15;
  constexpr size_t kEntry = sizeof(std::string) + sizeof(int64_t) + 1;
  return static_cast<int64_t>(kEntry * 3 / 2 + (key.size() > kInString ? key.size() + 1 : 0));
}

// As far as its first bytes say.
bool IsParquet(const std::string& path) {
  const auto file = InputFile::OpenBytes(path);
  if (!file.ok()) return false;
  const auto bytes = static_cast<size_t>((*file)->end() - (*file)->begin());
  return absl::StartsWith(absl::string_view((*file)->begin(), bytes), "PAR1");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvReader>> OpenSideTable(const proto::JoinSpec& spec) {
  auto csv = CsvReader::Open(spec.path(), CsvFormatOf(spec.csv()));
  if (csv.ok() || !absl::IsInvalidArgument(csv.status()) || !IsParquet(spec.path())) return csv;
  // What it says of dataset.format is for the rows.
  return absl::InvalidArgumentError(absl::StrCat(
      spec.path(), ": wanted a csv file, as every joined table is, found a Parquet file"));
}

// Fills a table from its file.
class SideTableReader {
 public:
  SideTableReader(const proto::JoinSpec& spec, CsvReader* csv, SideTable* table)
      : spec_(spec), csv_(*csv), table_(*table) {}
  absl::Status Read(const std::vector<std::string>& wanted, int64_t most_bytes);

 private:
  absl::Status ChooseColumns(const std::vector<std::string>& wanted);
  absl::Status AddRow();

  const proto::JoinSpec& spec_;
  CsvReader& csv_;
  SideTable& table_;
  int key_ = 0;
  std::vector<int> columns_;
};

absl::Status SideTableReader::ChooseColumns(const std::vector<std::string>& wanted) {
  ASSIGN_OR_RETURN(key_, csv_.FindColumn(spec_.right_on()));
  for (const std::string& name : wanted) {
    if (!absl::StartsWith(name, spec_.prefix())) continue;
    const std::string own = name.substr(spec_.prefix().size());
    // The key is the same on both sides.
    if (own == spec_.right_on() && spec_.prefix().empty()) continue;
    const auto& columns = csv_.columns();
    if (std::find(columns.begin(), columns.end(), own) == columns.end()) continue;
    ASSIGN_OR_RETURN(const int column, csv_.FindColumn(own));
    columns_.push_back(column);
    table_.columns_.push_back(name);
  }
  return absl::OkStatus();
}

absl::Status SideTableReader::AddRow() {
  const absl::string_view key = csv_.fields()[static_cast<size_t>(key_)];
  const auto row = static_cast<int64_t>(table_.lines_.size());
  const auto [found, added] = table_.rows_.try_emplace(std::string(key), row);
  if (!added) {
    return csv_.FieldError(key_, absl::StrCat("each key of a joined table once, and it stands on "
                                              "line ",
                                              table_.line(found->second)));
  }
  table_.lines_.push_back(csv_.line());
  table_.bytes_ += BytesOfKey(key) + static_cast<int64_t>(sizeof(int64_t));
  for (const int column : columns_) {
    const absl::string_view field = csv_.fields()[static_cast<size_t>(column)];
    if (!IsUtf8(field)) return csv_.FieldError(column, "text in UTF-8");
    absl::StrAppend(&table_.text_, field);
    table_.ends_.push_back(static_cast<int64_t>(table_.text_.size()));
    table_.bytes_ += static_cast<int64_t>(field.size() + sizeof(int64_t));
  }
  return absl::OkStatus();
}

absl::Status SideTableReader::Read(const std::vector<std::string>& wanted, int64_t most_bytes) {
  RETURN_IF_ERROR(ChooseColumns(wanted));
  while (true) {
    ASSIGN_OR_RETURN(const bool found, csv_.Next());
    if (!found) return absl::OkStatus();
    RETURN_IF_ERROR(AddRow());
    if (table_.bytes_ <= most_bytes) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        spec_.path(), ":", csv_.line(), ": a joined table is held in memory, and after ",
        table_.lines_.size(), " rows it takes more than dataset.memory leaves (",
        BytesText(most_bytes), "); wanted a smaller one, or more memory"));
  }
}

absl::StatusOr<SideTable> SideTable::Read(const proto::JoinSpec& spec,
                                          const std::vector<std::string>& wanted,
                                          int64_t most_bytes) {
  SideTable table;
  table.spec_ = spec;
  ASSIGN_OR_RETURN(const auto csv, OpenSideTable(spec));
  RETURN_IF_ERROR(SideTableReader(spec, csv.get(), &table).Read(wanted, most_bytes));
  table.content_hash_ = csv->content_hash();
  return table;
}

int SideTable::Column(absl::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  return found == columns_.end() ? -1 : static_cast<int>(found - columns_.begin());
}

int64_t SideTable::Row(absl::string_view key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? -1 : found->second;
}

absl::string_view SideTable::Field(int64_t row, int column) const {
  const auto at = static_cast<size_t>(row) * columns_.size() + static_cast<size_t>(column);
  const int64_t begin = at == 0 ? 0 : ends_[at - 1];
  return absl::string_view(text_).substr(static_cast<size_t>(begin),
                                         static_cast<size_t>(ends_[at] - begin));
}

bool SideTable::IsMissing(absl::string_view field) const {
  const auto& missing = spec_.csv().missing_values();
  return std::find(missing.begin(), missing.end(), field) != missing.end();
}

std::vector<std::string> ColumnsRead(const proto::DatasetSpec& spec) {
  std::set<std::string> names;
  for (const proto::FeatureSpec& feature : spec.features()) {
    for (const std::string& name : {feature.column(), feature.group_by(), feature.by()}) {
      names.insert(name);
    }
    names.insert(feature.columns().begin(), feature.columns().end());
  }
  for (const std::string& name :
       {spec.label().column(), spec.label().weight(), spec.split().holdout_per(), spec.split().by(),
        spec.known_items().group_by(), spec.query()}) {
    names.insert(name);
  }
  for (const proto::LabelSpec& label : spec.labels()) {
    names.insert(label.column());
    names.insert(label.weight());
  }
  for (const proto::JoinSpec& join : spec.joins()) names.insert(join.left_on());
  names.erase("");
  return {names.begin(), names.end()};
}

absl::StatusOr<std::shared_ptr<const SideTables>> SideTables::Read(const proto::DatasetSpec& spec,
                                                                   int64_t most_bytes) {
  const std::vector<std::string> wanted = ColumnsRead(spec);
  auto tables = std::make_shared<SideTables>();
  for (const proto::JoinSpec& join : spec.joins()) {
    ASSIGN_OR_RETURN(SideTable table, SideTable::Read(join, wanted, most_bytes - tables->bytes()));
    for (const std::string& name : wanted) {
      const int other = tables->Find(name);
      if (table.Column(name) < 0 || other < 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("data set: wanted one column ", Quoted(name), ", found it in ",
                       tables->table(other).spec().path(), " and in ", join.path(),
                       "; a prefix (dataset.join) tells them apart"));
    }
    // The key of a table comes from the rows or from earlier tables.
    for (int i = 0; i <= tables->size(); ++i) {
      const proto::JoinSpec& of = spec.joins(i);
      if (table.Column(of.left_on()) < 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "data set: the key ", Quoted(of.left_on()), " of ", of.path(), " is a column of ",
          join.path(), ", which is joined ", i == tables->size() ? "by it" : "later",
          "; wanted another order, or a prefix (dataset.join)"));
    }
    tables->tables_.push_back(std::move(table));
  }
  return std::shared_ptr<const SideTables>(std::move(tables));
}

int SideTables::Find(absl::string_view column) const {
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].Column(column) >= 0) return static_cast<int>(i);
  }
  return -1;
}

int64_t SideTables::bytes() const {
  int64_t bytes = 0;
  for (const SideTable& table : tables_) bytes += table.bytes();
  return bytes;
}

uint64_t SideTables::content_hash() const {
  uint64_t hash = 0;
  for (const SideTable& table : tables_) hash = HashPair(hash, table.content_hash());
  return hash;
}

bool MayReplaceTables(const proto::DatasetSpec& spec) {
  return spec.followed() && spec.learned().empty() && spec.paths().empty();
}

int64_t BytesOf(const std::shared_ptr<const SideTables>& tables) {
  return tables == nullptr ? 0 : tables->bytes();
}

}  // namespace coxswain::data
