// libffm: lines of a label and of field:index:value, as field-aware models have them. Each field is
// a column, named by its number: a numeric feature reads the value, a feature of one category the
// index, and one of several categories the indices with the values as their weights.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/libsvm_reader.h"
#include "runtime/data/made_features.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;

constexpr char kLabel[] = "label";

bool IsColumn(absl::string_view name) {
  int64_t field = 0;
  return name == kLabel || (ParseIndex(name, &field) && absl::StrCat(field) == name);
}

class FfmRows {
 public:
  FfmRows(const DatasetSpec& spec, LineReader* lines, TableRows* rows);
  absl::Status Read();

 private:
  struct Field {
    std::string name;
    std::string pairs;               // "12:1 77:0.5", or the label
    absl::string_view index, value;  // of the last pair
    int64_t count = 0;
  };
  enum class Takes { kLabel, kPairs, kIndex, kValue };
  struct Target {
    size_t field;
    Takes takes;
    FieldSink* sink;
  };

  static Takes WhatTakes(const DatasetSpec& spec, const TableRows::Binding& binding);

  absl::Status ReadLine(absl::string_view line);
  absl::Status AddPair(absl::string_view line, absl::string_view pair);
  absl::Status AddRow(absl::string_view line);

  LineReader& lines_;
  TableRows& rows_;
  std::vector<Field> fields_;  // the fields to read, by name; the label is a field too
  std::map<int64_t, size_t> by_number_;
  std::vector<Target> targets_;
  bool label_is_number_;  // and nobody looks at it
};

FfmRows::FfmRows(const DatasetSpec& spec, LineReader* lines, TableRows* rows)
    : lines_(*lines), rows_(*rows) {
  std::set<std::string> names;
  for (const TableRows::Binding& binding : rows->bindings()) names.insert(binding.column);
  for (const std::string& name : names) {
    int64_t number = 0;
    if (ParseIndex(name, &number)) by_number_[number] = fields_.size();
    fields_.push_back({name, "", "", ""});
  }
  for (const TableRows::Binding& binding : rows->bindings()) {
    const auto at = std::lower_bound(
        fields_.begin(), fields_.end(), binding.column,
        [](const Field& field, const std::string& name) { return field.name < name; });
    targets_.push_back(
        {static_cast<size_t>(at - fields_.begin()), WhatTakes(spec, binding), binding.sink.get()});
  }
  label_is_number_ = names.count(kLabel) == 0 && spec.has_label() && spec.label().column().empty();
}

FfmRows::Takes FfmRows::WhatTakes(const DatasetSpec& spec, const TableRows::Binding& binding) {
  if (binding.column == kLabel) return Takes::kLabel;
  if (binding.sink->TakesLists()) return Takes::kPairs;
  const auto is_number = [&](const FeatureSpec& feature) {
    const bool number = feature.kind() != FeatureSpec::CATEGORICAL || HasFixedValues(feature);
    const auto& columns = feature.columns();
    return feature.by() == binding.column ||
           (number && (feature.column() == binding.column ||
                       std::find(columns.begin(), columns.end(), binding.column) != columns.end()));
  };
  const auto of_label = [&](const proto::LabelSpec& label) {
    return label.column() == binding.column || label.weight() == binding.column;
  };
  const bool number = spec.label().weight() == binding.column ||
                      std::any_of(spec.labels().begin(), spec.labels().end(), of_label) ||
                      spec.split().by() == binding.column ||
                      std::any_of(spec.features().begin(), spec.features().end(), is_number);
  return number ? Takes::kValue : Takes::kIndex;
}

absl::Status FfmRows::AddPair(absl::string_view line, absl::string_view pair) {
  const size_t first = pair.find(':'), second = pair.find(':', first + 1);
  int64_t field = 0, index = 0;
  double value = 0;
  const bool fits = first != absl::string_view::npos && second != absl::string_view::npos &&
                    ParseIndex(pair.substr(0, first), &field) &&
                    ParseIndex(pair.substr(first + 1, second - first - 1), &index) &&
                    ParseNumber(pair.substr(second + 1), &value);
  if (!fits) {
    return lines_.Error(line, pair.data(),
                        absl::StrCat("wanted field:index:value, found ", Quoted(pair)));
  }
  const auto at = by_number_.find(field);
  if (at == by_number_.end()) return absl::OkStatus();
  Field& found = fields_[at->second];
  absl::StrAppend(&found.pairs, found.count++ > 0 ? " " : "", index, pair.substr(second));
  found.index = pair.substr(first + 1, second - first - 1);
  found.value = pair.substr(second + 1);
  return absl::OkStatus();
}

absl::Status FfmRows::AddRow(absl::string_view line) {
  for (const auto& [at, takes, sink] : targets_) {
    const Field& field = fields_[at];
    const bool all = takes == Takes::kLabel || takes == Takes::kPairs;
    const absl::string_view text = all                      ? field.pairs
                                   : takes == Takes::kIndex ? field.index
                                                            : field.value;
    const bool missing = takes != Takes::kLabel && field.count == 0;
    const bool fits =
        (all || field.count <= 1) && (missing ? sink->AppendMissing() : sink->Append(text));
    if (fits) continue;
    const bool many = !all && field.count > 1;
    return lines_.Error(line, line.data(),
                        absl::StrCat(takes == Takes::kLabel ? "" : "field ", field.name,
                                     ": wanted ", many ? "one value" : sink->Wanted(), ", found ",
                                     Quoted(many ? absl::string_view(field.pairs) : text)));
  }
  for (const Field& field : fields_) {
    if (rows_.chained()) rows_.chain().Add(field.pairs);
  }
  return rows_.EndRow(lines_.input(), lines_.line_number(), lines_.line_number() + 1);
}

absl::Status FfmRows::ReadLine(absl::string_view line) {
  for (Field& field : fields_) {
    field.pairs.clear();
    field.index = field.value = absl::string_view();
    field.count = 0;
  }
  const auto is_space = [](char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); };
  bool label = true;
  for (auto at = line.begin(); at != line.end();) {
    const auto begin = std::find_if_not(at, line.end(), is_space);
    at = std::find_if(begin, line.end(), is_space);
    if (begin == at) break;
    const absl::string_view word =
        line.substr(static_cast<size_t>(begin - line.begin()), static_cast<size_t>(at - begin));
    if (!label) {
      RETURN_IF_ERROR(AddPair(line, word));
      continue;
    }
    label = false;
    if (label_is_number_ && !IsNumberLabel(word)) {
      return lines_.Error(line, word.data(),
                          absl::StrCat("label: wanted ", kNumberLabel, ", found ", Quoted(word)));
    }
    for (Field& field : fields_) {
      if (field.name == kLabel) field.pairs = std::string(word);
    }
  }
  return label ? absl::OkStatus() : AddRow(line);  // without a word it is a blank line
}

absl::Status FfmRows::Read() {
  RETURN_IF_ERROR(rows_.StartFile(lines_.input(), {}, lines_.line_number() + 1));
  absl::string_view line;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, lines_.Next(&line));
    if (!found) return rows_.EndFile(lines_.input());
    RETURN_IF_ERROR(ReadLine(line));
  }
}

class Libffm final : public DataFormat {
 public:
  const char* name() const override { return "libffm"; }
  bool names_columns() const override { return false; }
  bool has_labels() const override { return true; }

  absl::Status Check(const DatasetSpec& spec) const override {
    for (const proto::LabelSpec& label : spec.labels()) {
      if (label.value_separator().empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat("data set: label ", Quoted(label.name()),
                                                     ": a libffm data set has no lists of texts"));
    }
    return absl::OkStatus();
  }

  void FillDefaults(DatasetSpec* spec) const override {
    for (FeatureSpec& feature : *spec->mutable_features()) {
      if (!feature.multi_valued() || !feature.history_of().empty()) continue;
      feature.clear_value_separator();
      feature.set_weight_separator(":");
    }
    if (spec->label().column().empty() && spec->label().feature().empty()) {
      spec->mutable_label()->set_column(kLabel);
    }
  }

  absl::Status Read(const DatasetSpec& spec, const std::string& path,
                    TableRows* rows) const override {
    for (const TableRows::Binding& binding : rows->bindings()) {
      if (IsColumn(binding.column)) continue;
      return absl::NotFoundError(absl::StrCat(
          path, ": wanted a column ", Quoted(binding.column),
          ", found none of that name; in libffm a column is a field's number, from 0, or ",
          kLabel));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(path));
    RETURN_IF_ERROR(FfmRows(spec, lines.get(), rows).Read());
    rows->AddContent(lines->content_hash());
    return absl::OkStatus();
  }

  absl::Status ReadBlock(const DatasetSpec& spec, FileBlock block, TableRows* rows) const override {
    LineReader lines(InputFile::OfBytes(block.path, std::move(block.bytes)), block.first_line);
    return FfmRows(spec, &lines, rows).Read();
  }
};

}  // namespace

const DataFormat& LibffmFiles() {
  static const auto* const format = new Libffm;
  return *format;
}

}  // namespace coxswain::data
