#include "runtime/data/json_line.h"

#include <simdjson.h>

#include <charconv>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

constexpr int kKeysWithoutMap = 16;

// The shortest text that is read as this number again: 7, 0.5, 1e+30.
std::string NumberText(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, end.ptr);
}

// False for what has no text: null, objects and lists.
bool TextOf(const element& from, std::string* text) {
  switch (from.type()) {
    case element_type::STRING:
      *text = std::string(from.get_string().value_unsafe());
      return true;
    case element_type::INT64:
      *text = absl::StrCat(from.get_int64().value_unsafe());
      return true;
    case element_type::UINT64:
      *text = absl::StrCat(from.get_uint64().value_unsafe());
      return true;
    case element_type::DOUBLE:
      *text = NumberText(from.get_double().value_unsafe());
      return true;
    case element_type::BOOL:
      *text = from.get_bool().value_unsafe() ? "true" : "false";
      return true;
    default:
      return false;
  }
}

// A key, or else the path that it spells.
bool FindPath(const object& from, const std::string& key, element* found);

bool Find(const object& from, const std::string& key, element* found) {
  return from.at_key(key).get(*found) == simdjson::SUCCESS || FindPath(from, key, found);
}

bool FindPath(const object& from, const std::string& key, element* found) {
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    element inner;
    object below;
    if (from.at_key(key.substr(0, dot)).get(inner) != simdjson::SUCCESS) continue;
    if (inner.get_object().get(below) != simdjson::SUCCESS) continue;
    if (Find(below, key.substr(dot + 1), found)) return true;
  }
  return false;
}

}  // namespace

struct JsonLine::Document {
  simdjson::dom::parser parser;
  std::string text;  // of the line, with the room behind it that the parser wants
  object root;
  // The values of its keys, of each the first; made when many of them are asked for.
  absl::flat_hash_map<absl::string_view, element> values;
  int asked = 0;

  bool FindKey(const std::string& key, element* found);
};

JsonLine::JsonLine() : document_(std::make_unique<Document>()) {}
JsonLine::~JsonLine() = default;

bool JsonLine::Parse(absl::string_view line) {
  problem_.clear();
  document_->values.clear();
  document_->asked = 0;
  std::string& text = document_->text;
  if (text.size() < line.size() + simdjson::SIMDJSON_PADDING) {
    text.resize(2 * line.size() + simdjson::SIMDJSON_PADDING);
  }
  std::memcpy(text.data(), line.data(), line.size());
  element root;
  simdjson::error_code error =
      document_->parser.parse(text.data(), line.size(), /*realloc_if_needed=*/false).get(root);
  if (error == simdjson::SUCCESS) {
    error = root.get_object().get(document_->root);
    if (error == simdjson::SUCCESS) return true;
    problem_ = "another value";
    return false;
  }
  problem_ = error == simdjson::NUMBER_ERROR
                 ? "a number that is none, or that 64 bits do not hold (a string may)"
                 : simdjson::error_message(error);
  return false;
}

// To look at all keys for each one is quick only for a few of them.
bool JsonLine::Document::FindKey(const std::string& key, element* found) {
  if (++asked < kKeysWithoutMap) return Find(root, key, found);
  if (values.empty()) {
    for (const auto& field : root) {
      values.try_emplace(absl::string_view(field.key.data(), field.key.size()), field.value);
    }
  }
  const auto value = values.find(key);
  if (value == values.end()) return FindPath(root, key, found);
  *found = value->second;
  return true;
}

bool JsonLine::Get(const std::string& key, JsonValue* value) {
  problem_.clear();
  value->kind = JsonValue::Kind::kMissing;
  element found;
  if (!document_->FindKey(key, &found)) return false;
  switch (found.type()) {
    case element_type::NULL_VALUE:
      return true;
    case element_type::BOOL:
      value->kind = JsonValue::Kind::kBool;
      value->truth = found.get_bool().value_unsafe();
      return true;
    case element_type::OBJECT:
      value->kind = JsonValue::Kind::kObject;
      return true;
    case element_type::ARRAY:
      break;
    default:
      value->kind = JsonValue::Kind::kText;
      return TextOf(found, &value->text);
  }
  value->kind = JsonValue::Kind::kList;
  value->list.clear();
  value->nulls.clear();
  simdjson::dom::array list;
  if (found.get_array().get(list) != simdjson::SUCCESS) return false;
  for (const element entry : list) {
    std::string text;
    value->nulls.push_back(entry.is_null());
    if (!entry.is_null() && !TextOf(entry, &text)) {
      problem_ = "a list of values";
      return false;
    }
    value->list.push_back(std::move(text));
  }
  return true;
}

std::vector<std::string> JsonLine::Keys() const {
  std::vector<std::string> keys;
  for (const auto& field : document_->root) keys.emplace_back(field.key);
  return keys;
}

}  // namespace coxswain::data
