// jsonl: a JSON object a line (JSON lines, ndjson).
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/input_file.h"
#include "runtime/data/json_line.h"
#include "runtime/data/names.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

class JsonRows {
 public:
  JsonRows(LineReader* lines, TableRows* rows);
  absl::Status Read();

 private:
  absl::Status AddRow();
  absl::Status ReadLine();
  absl::Status Wrong(const std::string& key, absl::string_view wanted, absl::string_view found);

  LineReader& lines_;
  TableRows& rows_;
  absl::string_view line_;
  JsonLine json_;
  // By the keys that are bound, which are sorted, each once.
  std::vector<std::string> keys_;
  std::vector<JsonValue> values_;
  std::vector<bool> found_;
  std::vector<std::pair<size_t, FieldSink*>> sinks_;  // and which key's value each takes
};

JsonRows::JsonRows(LineReader* lines, TableRows* rows) : lines_(*lines), rows_(*rows) {
  std::set<std::string> names;
  for (const TableRows::Binding& binding : rows->bindings()) names.insert(binding.column);
  keys_.assign(names.begin(), names.end());
  values_.resize(keys_.size());
  found_.resize(keys_.size());
  for (const TableRows::Binding& binding : rows->bindings()) {
    const auto at = std::lower_bound(keys_.begin(), keys_.end(), binding.column);
    sinks_.emplace_back(static_cast<size_t>(at - keys_.begin()), binding.sink.get());
  }
}

std::string Shown(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kMissing:
      return "none";
    case JsonValue::Kind::kText:
      return Quoted(value.text);
    case JsonValue::Kind::kBool:
      return value.truth ? "true" : "false";
    case JsonValue::Kind::kList:
      return absl::StrCat("a list of ", value.list.size());
    case JsonValue::Kind::kObject:
      break;
  }
  return "an object";
}

bool Append(const JsonValue& value, FieldSink* sink) {
  switch (value.kind) {
    case JsonValue::Kind::kMissing:
      return sink->AppendMissing();
    case JsonValue::Kind::kText:
      return sink->Append(value.text);
    case JsonValue::Kind::kBool:
      return sink->AppendBool(value.truth);
    case JsonValue::Kind::kList:
      return sink->AppendList(value.list);
    case JsonValue::Kind::kObject:
      break;
  }
  return false;
}

// What a model's rows are known by, see RowChain.
void AddToChain(const JsonValue& value, RowChain* chain) {
  if (value.kind == JsonValue::Kind::kList) {
    const auto nulls = std::count(value.nulls.begin(), value.nulls.end(), true);
    chain->AddNumber(value.list.size() - static_cast<size_t>(nulls));
    for (size_t i = 0; i < value.list.size(); ++i) {
      if (!value.nulls[i]) chain->Add(value.list[i]);
    }
    return;
  }
  chain->Add(value.kind == JsonValue::Kind::kText   ? absl::string_view(value.text)
             : value.kind == JsonValue::Kind::kBool ? (value.truth ? "true" : "false")
                                                    : "");
}

absl::Status JsonRows::Wrong(const std::string& key, absl::string_view wanted,
                             absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(lines_.input()->path(), ":", lines_.line_number(),
                                                 ": key ", Quoted(key), ": wanted ", wanted,
                                                 ", found ", found));
}

absl::Status JsonRows::AddRow() {
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (json_.Get(keys_[i], &values_[i])) {
      found_[i] = true;
    } else if (!json_.problem().empty()) {
      return Wrong(keys_[i], json_.problem(), "a list with something else in it");
    }
  }
  for (const auto& [at, sink] : sinks_) {
    const JsonValue& value = values_[at];
    if (Append(value, sink)) continue;
    const bool many = value.kind == JsonValue::Kind::kList && !sink->TakesLists();
    const bool object = value.kind == JsonValue::Kind::kObject;
    return Wrong(keys_[at],
                 object ? absl::StrCat("a value (of the object, name a key: ", keys_[at], ".KEY)")
                 : many ? "one value"
                        : sink->Wanted(),
                 Shown(value));
  }
  for (size_t i = 0; i < keys_.size() && rows_.chained(); ++i) {
    AddToChain(values_[i], &rows_.chain());
  }
  return rows_.EndRow(lines_.input(), lines_.line_number(), lines_.line_number() + 1);
}

absl::Status JsonRows::ReadLine() {
  if (absl::StripAsciiWhitespace(line_).empty()) return absl::OkStatus();
  if (!json_.Parse(line_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(lines_.input()->path(), ":", lines_.line_number(),
                     ": wanted a JSON object on the line, found ", json_.problem()));
  }
  if (rows_.wants_names()) rows_.SetNames(json_.Keys());
  return AddRow();
}

absl::Status JsonRows::Read() {
  RETURN_IF_ERROR(rows_.StartFile(lines_.input(), {}, lines_.line_number() + 1));
  while (true) {
    ASSIGN_OR_RETURN(const bool found, lines_.Next(&line_));
    if (!found) break;
    RETURN_IF_ERROR(ReadLine());
  }
  for (size_t i = 0; i < keys_.size() && !rows_.wants_names(); ++i) {
    rows_.SetFound(keys_[i], found_[i]);
  }
  return rows_.EndFile(lines_.input());
}

class Jsonl final : public DataFormat {
 public:
  const char* name() const override { return "jsonl"; }
  bool has_objects() const override { return true; }

  // JSON lines have neither a header nor separators; missing_values still apply.
  void UseForRows(bool other, proto::DatasetSpec* spec) const override {
    if (!other) return;
    proto::CsvOptions options;
    options.set_trim(spec->csv().trim());
    *options.mutable_missing_values() = spec->csv().missing_values();
    *spec->mutable_csv() = std::move(options);
  }

  absl::Status Read(const proto::DatasetSpec&, const std::string& path,
                    TableRows* rows) const override {
    ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(path));
    RETURN_IF_ERROR(JsonRows(lines.get(), rows).Read());
    rows->AddContent(lines->content_hash());
    return absl::OkStatus();
  }

  absl::Status ReadBlock(const proto::DatasetSpec&, FileBlock block,
                         TableRows* rows) const override {
    LineReader lines(InputFile::OfBytes(block.path, std::move(block.bytes)), block.first_line);
    return JsonRows(&lines, rows).Read();
  }
};

}  // namespace

const DataFormat& JsonlFiles() {
  static const auto* const format = new Jsonl;
  return *format;
}

}  // namespace coxswain::data
