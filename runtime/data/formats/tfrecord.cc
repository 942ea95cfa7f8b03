// tfrecord: TFRecord files of tf.Example, whose features' names are the columns.
#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protos/tf_example.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/names.h"
#include "runtime/data/row_search.h"
#include "runtime/data/table_rows.h"
#include "runtime/data/tfrecord_reader.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;
using proto::TfFeature;

class ExampleRows {
 public:
  ExampleRows(const DatasetSpec& spec, TfRecordReader* reader, TableRows* rows);
  absl::Status Read();

 private:
  struct Column {
    std::string name;
    bool cut = false;  // a single text is split at the feature's separator
    bool found = false;
    bool is_text = false;
    std::vector<std::string> values;  // of the last example, as texts
  };

  absl::Status ReadRows();
  absl::Status AddRow(const proto::TfExample& example);
  void TakeValues(const TfFeature* feature, Column* column);
  static bool Append(const Column& column, FieldSink* sink);

  TfRecordReader& reader_;
  TableRows& rows_;
  proto::TfExample example_;
  std::vector<Column> columns_;                       // those that are bound, by name
  std::vector<std::pair<size_t, FieldSink*>> sinks_;  // and which column each takes
};

ExampleRows::ExampleRows(const DatasetSpec& spec, TfRecordReader* reader, TableRows* rows)
    : reader_(*reader), rows_(*rows) {
  std::set<std::string> names, cut;
  for (const FeatureSpec& feature : spec.features()) {
    if (!feature.value_separator().empty()) cut.insert(feature.column());
  }
  for (const proto::LabelSpec& label : spec.labels()) {
    if (!label.value_separator().empty()) cut.insert(label.column());
  }
  if (!spec.label().value_separator().empty()) cut.insert(spec.label().column());
  for (const TableRows::Binding& binding : rows->bindings()) names.insert(binding.column);
  for (const std::string& name : names) {
    columns_.emplace_back();
    columns_.back().name = name;
    columns_.back().cut = cut.count(name) > 0;
  }
  for (const TableRows::Binding& binding : rows->bindings()) {
    const auto at = std::lower_bound(
        columns_.begin(), columns_.end(), binding.column,
        [](const Column& column, const std::string& name) { return column.name < name; });
    sinks_.emplace_back(static_cast<size_t>(at - columns_.begin()), binding.sink.get());
  }
}

template <typename Number>
std::string TextOf(Number number) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), number).ptr);
}

void ExampleRows::TakeValues(const TfFeature* feature, Column* column) {
  column->values.clear();
  column->is_text = false;
  if (feature == nullptr) return;
  column->found = true;
  column->is_text = feature->kind_case() == TfFeature::kBytesList;
  for (const std::string& text : feature->bytes_list().value()) column->values.push_back(text);
  for (const int64_t number : feature->int64_list().value()) {
    column->values.push_back(TextOf(number));
  }
  // As other files of columns have them: exact.
  for (const float number : feature->float_list().value()) {
    column->values.push_back(TextOf(static_cast<double>(number)));
  }
}

bool ExampleRows::Append(const Column& column, FieldSink* sink) {
  if (sink->TakesLists() && !(column.cut && column.is_text && column.values.size() == 1)) {
    return sink->AppendList(column.values);
  }
  if (column.values.empty()) return sink->AppendMissing();
  return column.values.size() == 1 && sink->Append(column.values[0]);
}

absl::Status ExampleRows::AddRow(const proto::TfExample& example) {
  const auto& features = example.features().feature();
  for (Column& column : columns_) {
    const auto found = features.find(column.name);
    TakeValues(found == features.end() ? nullptr : &found->second, &column);
  }
  for (const auto& [at, sink] : sinks_) {
    const Column& column = columns_[at];
    if (Append(column, sink)) continue;
    const size_t size = column.values.size();
    const bool many = size > 1 && !sink->TakesLists();
    return reader_.Error(absl::StrCat("feature ", Quoted(column.name), ": wanted ",
                                      many ? "one value" : sink->Wanted(), ", found ",
                                      size == 0   ? "none"
                                      : size == 1 ? Quoted(column.values[0])
                                                  : absl::StrCat("a list of ", size)));
  }
  if (rows_.chained()) {
    for (const Column& column : columns_) {
      rows_.chain().AddNumber(column.values.size());
      for (const std::string& value : column.values) rows_.chain().Add(value);
    }
  }
  if (rows_.wants_names()) {
    std::vector<std::string> names;
    for (const auto& [name, feature] : features) names.push_back(name);
    std::sort(names.begin(), names.end());
    rows_.SetNames(std::move(names));
  }
  return rows_.EndRow(reader_.input(), reader_.number(), reader_.number() + 1);
}

absl::Status ExampleRows::ReadRows() {
  absl::string_view record;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, reader_.Next(&record));
    if (!found) return absl::OkStatus();
    if (!example_.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
      return reader_.Error("wanted a tf.Example, found other bytes");
    }
    RETURN_IF_ERROR(AddRow(example_));
  }
}

absl::Status ExampleRows::Read() {
  RETURN_IF_ERROR(rows_.StartFile(reader_.input(), {}, reader_.number() + 1));
  const absl::Status status = ReadRows();
  // Also of a range that ends within a record: its whole blocks count.
  for (const Column& column : columns_) {
    if (!rows_.wants_names()) rows_.SetFound(column.name, column.found);
  }
  RETURN_IF_ERROR(status);
  return rows_.EndFile(reader_.input());
}

class TfRecord final : public DataFormat {
 public:
  const char* name() const override { return "tfrecord"; }
  bool has_lines() const override { return false; }
  bool has_ranges() const override { return true; }
  absl::StatusOr<int64_t> FindRow(const DatasetSpec&, absl::Span<const std::string>,
                                  const env::RandomAccessFile& file, int64_t,
                                  int64_t at) const override {
    return FindTfRecord(file, at);
  }

  absl::Status Read(const DatasetSpec& spec, const std::string& path,
                    TableRows* rows) const override {
    ASSIGN_OR_RETURN(auto input, InputFile::OpenBytes(path));
    TfRecordReader reader(std::move(input));
    RETURN_IF_ERROR(ExampleRows(spec, &reader, rows).Read());
    rows->AddContent(reader.input()->content_hash());
    return absl::OkStatus();
  }

  absl::Status ReadBlock(const DatasetSpec& spec, FileBlock block, TableRows* rows) const override {
    TfRecordReader reader(InputFile::OfBytes(block.path, std::move(block.bytes)), block.first_line);
    return ExampleRows(spec, &reader, rows).Read();
  }
};

}  // namespace

const DataFormat& TfrecordFiles() {
  static const auto* const format = new TfRecord;
  return *format;
}

}  // namespace coxswain::data
