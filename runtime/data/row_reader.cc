// A reader from a spec; the table that rows are read into, from a block or from cells; columns of
// it.
#include "runtime/data/row_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/learned.h"
#include "runtime/data/made_features.h"
#include "runtime/data/names.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;
using Kind = RowReader::Input::Kind;

RowReader::Input InputOf(const FeatureSpec& feature, const DatasetSpec& spec) {
  RowReader::Input input;
  input.column = feature.column();
  if (feature.kind() == FeatureSpec::VECTOR) {
    input.kind = Kind::kValues;
  } else if (feature.kind() == FeatureSpec::NUMERIC || IsBucketized(feature)) {
    input.kind = Kind::kNumber;
  } else if (FormatOf(spec).HasIndices(feature)) {
    input.kind = Kind::kIndices;
  } else if (!feature.tokens().empty()) {
    input.kind = Kind::kValue;  // a text
  } else if (feature.multi_valued()) {
    input.kind = Kind::kValues;
    input.separator = feature.value_separator();
    input.any_text = feature.values_of_rows();
  }
  return input;
}

}  // namespace

absl::StatusOr<Batch> InputRows::Read(int64_t begin, int64_t end) const {
  if (begin < 0 || end < begin || end > rows_) {
    return absl::OutOfRangeError(
        absl::StrCat("wanted rows ", begin, " to ", end, ", there are ", rows_));
  }
  std::vector<uint32_t> numbers(static_cast<size_t>(end - begin));
  std::iota(numbers.begin(), numbers.end(), static_cast<uint32_t>(begin));
  BatchRows rows;
  rows.rows = numbers;
  rows.epoch_key = sample_key_;
  Batch batch;
  for (const auto& column : columns_) RETURN_IF_ERROR(column->Gather(rows, &batch));
  return batch;
}

absl::StatusOr<RowReader> RowReader::Create(const DatasetSpec& spec, const Dataset& data,
                                            absl::Span<const std::string> batch_columns) {
  ASSIGN_OR_RETURN(DatasetSpec checked, CheckSpec(spec));
  RowReader reader;
  const auto has = [&](const std::string& column) {
    return std::find(batch_columns.begin(), batch_columns.end(), column) != batch_columns.end();
  };
  const DatasetSpec all = checked;
  const auto wanted = [&](const FeatureSpec& feature) {
    return has(feature.name()) || has(absl::StrCat(feature.name(), ".values"));
  };
  // A feature of the batch, or one that such a feature is made of.
  const auto is_read = [&](const FeatureSpec& feature) {
    return wanted(feature) ||
           std::any_of(all.features().begin(), all.features().end(), [&](const FeatureSpec& made) {
             const auto& parts = made.crossed();
             return wanted(made) &&
                    std::find(parts.begin(), parts.end(), feature.name()) != parts.end();
           });
  };
  checked.clear_features();
  for (int i = 0; i < all.features_size(); ++i) {
    if (!is_read(all.features(i))) continue;
    *checked.add_features() = all.features(i);
    // A feature's number keeps its samples apart, also where others are left out.
    reader.sample_index_.push_back(static_cast<uint64_t>(i));
  }
  // Not before CheckSpec, which fills in the label of some formats. Where it is a number, a label
  // without a column says so: lines that begin with it are read past it, and not past anything.
  const bool number = !checked.label().column().empty() &&
                      checked.label().positive_values().empty() &&
                      checked.label().value_separator().empty();
  checked.clear_label();
  if (number) checked.mutable_label();
  checked.clear_labels();
  checked.clear_query();
  checked.clear_split();
  checked.clear_example_ids();
  reader.spec_ = std::move(checked);
  for (const FeatureSpec& feature : reader.spec_.features()) {
    if (IsHistory(feature)) {
      return absl::InvalidArgumentError(absl::StrCat("feature ", Quoted(feature.name()),
                                                     " is a history, which no row has of itself"));
    }
    const NumericTransform* transform = data.transform(feature.name());
    reader.transforms_.push_back(transform == nullptr ? NumericTransform() : *transform);
    const bool indices = FormatOf(reader.spec_).HasIndices(feature);
    reader.indices_.push_back(indices ? data.vocabulary_size(feature.name()) : -1);
    reader.vocabularies_.push_back(indices ? nullptr : data.shared_vocabulary(feature.name()));
  }
  Table none;
  TableRows rows(&none, 0);
  RETURN_IF_ERROR(BindColumns(reader.spec_, reader.vocabularies_, &none, &rows));
  reader.side_tables_ = none.side_tables;
  reader.ListInputs(rows);
  ASSIGN_OR_RETURN(const InputRows no_rows, reader.Finish(&none, {}));
  for (const auto& column : no_rows.columns_) column->Describe(&reader.columns_);
  return reader;
}

// The columns that are bound, and not those that rows get from a side table by one of them.
void RowReader::ListInputs(const TableRows& rows) {
  const bool optional = FormatOf(spec_).has_objects();
  const auto add = [this, optional](Input input) {
    input.optional = optional;
    const bool is_new = input_of_column_.try_emplace(input.column, inputs_.size()).second;
    if (is_new) inputs_.push_back(std::move(input));
  };
  absl::flat_hash_set<absl::string_view> bound;
  for (const TableRows::Binding& binding : rows.bindings()) bound.insert(binding.column);
  for (const FeatureSpec& feature : spec_.features()) {
    if (IsCrossed(feature)) continue;
    for (const std::string& column : feature.columns()) add({column, Kind::kNumber, ""});
    if (FormatOf(spec_).HasIndices(feature) || bound.contains(feature.column())) {
      add(InputOf(feature, spec_));
    }
  }
  for (const TableRows::Binding& binding : rows.bindings()) add({binding.column, Kind::kValue, ""});
}

absl::StatusOr<InputRows> RowReader::Finish(Table* table, std::vector<int64_t> lines) const {
  InputRows rows;
  rows.rows_ = table->rows;
  rows.lines_ = std::move(lines);
  rows.sample_key_ = SampleStreamKey(spec_.seed(), Ticket{Part::kTest, 0, 0, 0});
  for (size_t i = 0; i < table->features.size(); ++i) {
    const FeatureSpec& feature = spec_.features(static_cast<int>(i));
    TableFeature& read = table->features[i];
    if (feature.kind() == FeatureSpec::NUMERIC) {
      std::vector<float> values;
      values.reserve(read.numbers.size());
      for (const double number : read.numbers) values.push_back(transforms_[i].Apply(number));
      rows.columns_.push_back(std::make_unique<NumericColumn>(feature.name(), std::move(values)));
    } else if (feature.kind() == FeatureSpec::VECTOR) {
      for (float& number : read.vectors) number = transforms_[i].Apply(number);
      rows.columns_.push_back(std::make_unique<NumericColumn>(
          feature.name(), std::move(read.vectors), feature.width()));
    } else if (feature.multi_valued()) {
      if (indices_[i] >= 0) LearnNumbers(indices_[i], spec_.zero_based() ? 0 : 1, {}, &read);
      const bool weighted = indices_[i] >= 0 || !feature.weight_separator().empty();
      rows.columns_.push_back(std::make_unique<RaggedColumn>(
          feature.name(), std::move(read.lists), weighted, feature.max_values(), sample_index_[i]));
    } else {
      rows.columns_.push_back(std::make_unique<IdColumn>(feature.name(), std::move(read.ids)));
    }
  }
  return rows;
}

absl::StatusOr<InputRows> RowReader::ReadBlock(FileBlock block) const {
  Table table;
  table.side_tables = side_tables_;
  TableRows rows(&table, 0);
  rows.LeaveOutChain();
  RETURN_IF_ERROR(BindColumns(spec_, vocabularies_, &table, &rows));
  table.places.StartFile(block.path);
  RETURN_IF_ERROR(FormatOf(spec_).ReadBlock(spec_, std::move(block), &rows));
  std::vector<int64_t> lines;
  lines.reserve(static_cast<size_t>(table.rows));
  for (int64_t row = 0; row < table.rows; ++row) lines.push_back(table.places.LineOf(row));
  return Finish(&table, std::move(lines));
}

absl::StatusOr<InputRows> RowReader::ReadCells(absl::Span<const std::string> names,
                                               absl::Span<const Cells> cells) const {
  std::vector<std::vector<Value>> rows;
  rows.reserve(cells.size());
  for (const Cells& row : cells) rows.emplace_back(row.begin(), row.end());
  return ReadValues(names, rows);
}

absl::StatusOr<InputRows> RowReader::ReadValues(absl::Span<const std::string> names,
                                                absl::Span<const std::vector<Value>> values) const {
  absl::flat_hash_map<absl::string_view, size_t> places;
  for (size_t i = 0; i < names.size(); ++i) places.try_emplace(names[i], i);
  const auto find = [&](const std::string& column) -> absl::StatusOr<size_t> {
    const auto found = places.find(column);
    if (found != places.end()) return found->second;
    return absl::NotFoundError(absl::StrCat("wanted a column ", Quoted(column),
                                            ", found none of that name; ",
                                            Alternatives(column, names)));
  };
  Table table;
  table.side_tables = side_tables_;
  TableRows rows(&table, 0);
  rows.LeaveOutChain();
  RETURN_IF_ERROR(BindColumns(spec_, vocabularies_, &table, &rows));
  if (!rows.index_lists().empty()) {
    ASSIGN_OR_RETURN(const size_t column, find(inputs_[0].column));
    return ReadPairs(column, values);
  }
  std::vector<size_t> at;
  std::vector<const Input*> inputs;
  for (const TableRows::Binding& binding : rows.bindings()) {
    ASSIGN_OR_RETURN(at.emplace_back(), find(binding.column));
    inputs.push_back(&InputOfColumn(binding.column));
  }
  for (size_t r = 0; r < values.size(); ++r) {
    for (size_t b = 0; b < at.size(); ++b) {
      const TableRows::Binding& binding = rows.bindings()[b];
      const absl::Status appended = Append(*inputs[b], values[r][at[b]], binding.sink.get());
      if (appended.ok()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("rows[", r, "]: column ", Quoted(binding.column), ": ", appended.message()));
    }
  }
  table.rows = static_cast<int64_t>(values.size());
  std::vector<int64_t> lines(values.size());
  std::iota(lines.begin(), lines.end(), 1);
  return Finish(&table, std::move(lines));
}

absl::StatusOr<InputRows> RowReader::ReadPairs(size_t column,
                                               absl::Span<const std::vector<Value>> rows) const {
  std::vector<std::string> texts;
  for (size_t r = 0; r < rows.size(); ++r) {
    auto text = TextOf(inputs_[0], rows[r][column]);
    if (!text.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rows[", r, "]: column ", Quoted(inputs_[0].column), ": ", text.status().message()));
    }
    texts.push_back(*std::move(text));
  }
  const auto read = [&](std::string name, absl::Span<const std::string> some) {
    FileBlock block;
    block.path = std::move(name);
    for (const std::string& pairs : some) {
      const std::string line = absl::StrCat("0 ", pairs, "\n");
      block.bytes.insert(block.bytes.end(), line.begin(), line.end());
    }
    return ReadBlock(std::move(block));
  };
  auto all = read("rows", texts);
  if (all.ok() && all->rows() == static_cast<int64_t>(rows.size())) return all;
  for (size_t r = 0; r < rows.size(); ++r) {  // which of them it is
    const std::string name = absl::StrCat("rows[", r, "]");
    ASSIGN_OR_RETURN(const InputRows one, read(name, absl::MakeConstSpan(texts).subspan(r, 1)));
    if (one.rows() == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, ": a row of pairs holds a line end"));
  }
  return all;
}

absl::StatusOr<std::string> RowReader::TextOf(const Input& input, const Value& value) const {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return CellOf(input, *list);
  return std::string();
}

absl::Status RowReader::Append(const Input& input, const Value& value, FieldSink* sink) const {
  const auto* const list = std::get_if<std::vector<std::string>>(&value);
  const bool as_list = list != nullptr && input.kind == Kind::kValues && sink->TakesLists();
  std::string text;
  if (as_list && (input.any_text || FormatOf(spec_).has_objects())) {
    text = absl::StrJoin(*list, " ");
  } else {
    ASSIGN_OR_RETURN(text, TextOf(input, value));
  }
  const bool none = std::holds_alternative<std::monostate>(value) && FormatOf(spec_).has_objects();
  const bool missing = none || (list == nullptr && IsMissingValue(spec_.csv(), text));
  if (as_list && input.any_text && spec_.csv().missing_values_size() > 0) {
    // Each of them was a field of a row.
    std::vector<std::string> values = *list;
    for (std::string& one : values) {
      if (IsMissingValue(spec_.csv(), one)) one.clear();
    }
    if (sink->AppendList(values)) return absl::OkStatus();
  } else if (as_list   ? sink->AppendList(*list)
             : missing ? sink->AppendMissing()
                       : sink->Append(text)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("wanted ", sink->Wanted(), ", found ", Quoted(text)));
}

absl::StatusOr<std::string> RowReader::CellOf(const Input& input,
                                              absl::Span<const std::string> values) const {
  if (input.kind == Kind::kNumber || input.kind == Kind::kValue) {
    if (values.size() == 1) return values[0];
    return absl::InvalidArgumentError(
        absl::StrCat("wanted one value, found a list of ", values.size()));
  }
  const bool words = input.kind == Kind::kIndices || input.separator.empty();
  for (const std::string& value : values) {
    const bool cut = words ? std::any_of(value.begin(), value.end(), absl::ascii_isspace)
                           : absl::StrContains(value, input.separator);
    if (!cut) continue;
    return absl::InvalidArgumentError(absl::StrCat("the value ", Quoted(value), " holds ",
                                                   words ? "white space" : Quoted(input.separator),
                                                   ", which stands between values"));
  }
  return absl::StrJoin(values, words ? " " : input.separator);
}

}  // namespace coxswain::data
