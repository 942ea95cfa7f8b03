#include "coordinator/predict/raw_rows.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::predict {
namespace {

using Input = data::RowReader::Input;

data::RowReader::Value ValueOf(const RawValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;  // as a field of a file
  if (const auto* integer = std::get_if<int64_t>(&value)) return absl::StrCat(*integer);
  if (const auto* number = std::get_if<double>(&value)) return TextOf(*number);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return *list;
  return std::monostate();
}

}  // namespace

std::string TextOf(double number) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  return std::string(text, end);
}

RawColumn ColumnOf(const Input& input) {
  const auto kind = input.kind == Input::Kind::kNumber  ? RawColumn::Kind::kNumber
                    : input.kind == Input::Kind::kValue ? RawColumn::Kind::kValue
                                                        : RawColumn::Kind::kValues;
  return {input.column, kind, input.optional};
}

absl::StatusOr<data::InputRows> ReadRaw(const data::RowReader& reader, const RawRows& rows) {
  std::vector<std::string> names;
  std::vector<size_t> places;  // of the reader's inputs among the columns
  absl::flat_hash_map<absl::string_view, size_t> by_name;
  for (size_t i = 0; i < rows.columns.size(); ++i) by_name.try_emplace(rows.columns[i], i);
  for (const Input& input : reader.inputs()) {
    const auto found = by_name.find(input.column);
    if (found == by_name.end()) {
      return absl::NotFoundError(absl::StrCat("wanted a column ", data::Quoted(input.column),
                                              ", found none of that name; ",
                                              data::Alternatives(input.column, rows.columns)));
    }
    names.push_back(input.column);
    places.push_back(found->second);
  }
  std::vector<std::vector<data::RowReader::Value>> values;
  values.reserve(rows.rows.size());
  for (size_t r = 0; r < rows.rows.size(); ++r) {
    const std::vector<RawValue>& row = rows.rows[r];
    if (row.size() != rows.columns.size()) {
      return absl::InvalidArgumentError(absl::StrCat("rows[", r, "]: wanted ", rows.columns.size(),
                                                     " values, found ", row.size()));
    }
    std::vector<data::RowReader::Value>& mine = values.emplace_back();
    for (const size_t place : places) mine.push_back(ValueOf(row[place]));
  }
  return reader.ReadValues(names, values);
}

}  // namespace coxswain::predict
