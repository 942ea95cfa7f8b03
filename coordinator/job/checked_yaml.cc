// Problems; the check of a tree against the schema (SchemaChecker); and a checked section to be
// read (SectionView).
#include "coordinator/job/checked_yaml.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::job {
namespace {

using Kind = config::YamlNode::Kind;

std::string Join(const std::string& path, absl::string_view key) {
  return path.empty() ? std::string(key) : absl::StrCat(path, ".", key);
}

// What a section is called in a message.
std::string Called(const std::string& path) { return path.empty() ? "the file" : path; }

bool Applies(const SchemaKey& key, const std::string& selected) {
  return key.only[0] == '\0' || selected.empty() || HasWord(key.only, selected);
}

const SchemaKey* FindKey(const SchemaSection& section, const std::string& selected,
                         absl::string_view name) {
  for (const SchemaKey& key : section.keys) {
    if (key.name == name && Applies(key, selected)) return &key;
  }
  return nullptr;
}

// The value of the section's selector; "" when it is missing or wrong, and all keys are let
// through.
std::string Selected(const SchemaSection& section, const config::YamlNode& node) {
  const SchemaKey* key = FindKey(section, "", section.selector);
  COX_CHECK(key != nullptr && key->type == KeyType::kChoice);
  std::string text = key->fallback == nullptr ? "" : key->fallback;
  if (const config::YamlEntry* entry = node.Find(section.selector)) text = entry->value.text;
  return HasWord(key->choices, text) ? text : "";
}

std::vector<std::string> ValidKeys(const SchemaSection& section, const std::string& selected) {
  std::vector<std::string> valid;
  for (const SchemaKey& key : section.keys) {
    const bool listed = std::find(valid.begin(), valid.end(), key.name) != valid.end();
    if (Applies(key, selected) && !listed) valid.push_back(key.name);
  }
  return valid;
}

// What stands in a section: "keys feature, l2, init". A long list would hide what is wrong.
std::string KeysText(const SchemaSection& section, const std::string& inherited) {
  constexpr size_t kMost = 8;
  const std::string selected = section.selector[0] == '\0' ? inherited : "";
  const std::vector<std::string> valid = ValidKeys(section, selected);
  if (valid.size() <= kMost) return absl::StrCat("keys ", absl::StrJoin(valid, ", "));
  return absl::StrCat("keys such as ", absl::StrJoin(valid.begin(), valid.begin() + kMost, ", "));
}

bool InRange(const SchemaKey& key, double value) {
  return (key.below_max ? value < key.max : value <= key.max) &&
         (key.above_min ? value > key.min : value >= key.min);
}

bool IsInt(const config::YamlNode& node, int64_t* value) {
  return node.kind == Kind::kScalar && !node.quoted && absl::SimpleAtoi(node.text, value);
}

// A number of bytes, plain or in units of 1024 (KiB) or 1000 (KB).
bool IsBytes(const config::YamlNode& node, int64_t* value) {
  struct Unit {
    const char* name;
    double bytes;
  };
  static constexpr Unit kUnits[] = {{"KiB", 1024.0},
                                    {"MiB", 1024.0 * 1024},
                                    {"GiB", 1024.0 * 1024 * 1024},
                                    {"TiB", 1024.0 * 1024 * 1024 * 1024},
                                    {"KB", 1e3},
                                    {"MB", 1e6},
                                    {"GB", 1e9},
                                    {"TB", 1e12}};
  if (IsInt(node, value)) return true;
  if (node.kind != Kind::kScalar) return false;
  for (const Unit& unit : kUnits) {
    absl::string_view number = node.text;
    double count = 0;
    if (!absl::ConsumeSuffix(&number, unit.name)) continue;
    if (!absl::SimpleAtod(number, &count) || !(std::abs(count * unit.bytes) < 9e18)) return false;
    *value = static_cast<int64_t>(count * unit.bytes);
    return true;
  }
  return false;
}

bool IsReal(const config::YamlNode& node, double* value) {
  return node.kind == Kind::kScalar && !node.quoted && absl::SimpleAtod(node.text, value) &&
         std::isfinite(*value);
}

// Models and servers compute with 32 bits, where a number of a job may be no number any more, or
// nothing. What is wrong with it then, for a message; empty: all is well.
std::string WrongInF32(const SchemaKey& key, double value) {
  if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
    return absl::StrCat(", which is beyond the numbers of 32 bits, up to ",
                        std::numeric_limits<float>::max());
  }
  const bool above_zero = key.above_min && key.min == 0;
  return above_zero && static_cast<float>(value) == 0 ? ", which is 0 as a number of 32 bits" : "";
}

// `where` of a default is where it would stand; its keys stand nowhere.
void MarkFilledIn(const std::string& where, config::YamlNode* node) {
  node->where = where;
  for (config::YamlNode& item : node->items) MarkFilledIn("", &item);
  for (config::YamlEntry& entry : node->entries) {
    entry.where.clear();
    MarkFilledIn(where, &entry.value);
  }
}

// What the schema writes as the key's default; kNull where it writes none.
config::YamlNode DefaultOf(const SchemaKey& key) {
  const absl::string_view fallback = key.fallback == nullptr ? "" : key.fallback;
  if (fallback.empty() || fallback[0] == '=') return {};
  absl::StatusOr<config::YamlNode> value = config::ParseYaml(fallback, "default");
  COX_CHECK(value.ok(), key.name);
  return *std::move(value);
}

}  // namespace

void Problems::Add(const std::string& path, const std::string& where, const std::string& message) {
  ++count_;
  if (lines_.size() < kMostLines) lines_.push_back(absl::StrCat(where, ": ", message));
  paths_.insert(path);
}

bool Problems::Good(const std::string& path) const {
  for (const std::string& bad : paths_) {
    if (bad == path || absl::StartsWith(bad, path + ".") || absl::StartsWith(path, bad + ".")) {
      return false;
    }
  }
  return true;
}

absl::Status Problems::status() const {
  if (lines_.empty()) return absl::OkStatus();
  std::string all = absl::StrJoin(lines_, "\n");
  if (count_ > lines_.size()) absl::StrAppend(&all, "\nand ", count_ - lines_.size(), " more");
  return config::ConfigurationError(all);
}

// The selector of the section at `path` of the file, as it is given there or by its default; ""
// where it is wrong.
std::string SchemaChecker::SelectorOf(absl::string_view path) const {
  const SchemaKey* key = nullptr;
  const SchemaSection* section = &file_;
  const config::YamlNode* node = root_;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    key = FindKey(*section, "", name);
    COX_CHECK(key != nullptr && key->Sub() != nullptr, path);
    section = key->Sub();
    const config::YamlEntry* entry = node == nullptr ? nullptr : node->Find(name);
    node = entry == nullptr ? nullptr : &entry->value;
  }
  if (node != nullptr && node->Find(section->selector) != nullptr) return Selected(*section, *node);
  return Selected(*section, DefaultOf(*key));
}

// A section without its selector is its default with the given keys in place of the default's. Of
// one whose default is another section of the file, only the selector is taken here.
void SchemaChecker::TakeDefault(const SchemaKey& key, config::YamlNode* section) {
  const absl::string_view selector = key.Sub()->selector;
  if (selector.empty() || section->Find(selector) != nullptr || key.fallback == nullptr) return;
  config::YamlNode fallback = DefaultOf(key);
  absl::string_view other = key.fallback;
  if (absl::ConsumePrefix(&other, "=`") && absl::ConsumeSuffix(&other, "`")) {
    const std::string selected = SelectorOf(other);
    if (selected.empty()) return;  // what is wrong is told where it stands
    config::YamlNode word;
    word.kind = Kind::kScalar;
    word.text = selected;
    fallback.entries.push_back({std::string(selector), "", std::move(word)});
  }
  MarkFilledIn(section->where, &fallback);
  for (config::YamlEntry& entry : fallback.entries) {
    if (section->Find(entry.key) == nullptr) section->entries.push_back(std::move(entry));
  }
}

void SchemaChecker::CheckSection(const SchemaSection& section, const std::string& path,
                                 const std::string& inherited, config::YamlNode* node) {
  if (node->kind != Kind::kMap) {
    problems_->Add(path, node->where,
                   absl::StrCat(Called(path), ": wanted ", KeysText(section, inherited), ", found ",
                                node->Describe()));
    return;
  }
  const std::string selected = section.selector[0] == '\0' ? inherited : Selected(section, *node);
  for (config::YamlEntry& entry : node->entries) {
    const SchemaKey* key = FindKey(section, selected, entry.key);
    if (key == nullptr) {
      UnknownKey(section, path, selected, entry);
      continue;
    }
    const std::string key_path = Join(path, entry.key);
    if (!entry.where.empty()) (*locations_)[key_path] = entry.where;
    CheckValue(*key, key_path, selected, &entry.value);
  }
  for (const SchemaKey& key : section.keys) {
    // While the selector is unknown nobody can say what belongs here.
    const bool open = selected.empty() && key.only[0] != '\0';
    if (!open && Applies(key, selected) && node->Find(key.name) == nullptr) {
      FillIn(key, path, selected, node);
    }
  }
}

void SchemaChecker::UnknownKey(const SchemaSection& section, const std::string& path,
                               const std::string& selected, const config::YamlEntry& entry) {
  if (const SchemaKey* other = FindKey(section, "", entry.key)) {
    // The section's own selector is `kind` or `format`; an inherited one is the model's kind.
    const std::string selector = section.selector[0] == '\0' ? "kind" : section.selector;
    problems_->Add(
        Join(path, entry.key), entry.where,
        absl::StrCat("key '", entry.key, "' in ", Called(path), " is not for ", selector, " ",
                     selected, ", only for ", absl::StrJoin(Words(other->only), ", ")));
    return;
  }
  const std::vector<std::string> valid = ValidKeys(section, selected);
  std::string hint = config::DidYouMean(entry.key, valid);
  if (hint.empty()) {
    for (const SchemaSection* elsewhere : AllSections(file_)) {
      if (FindKey(*elsewhere, "", entry.key) == nullptr) continue;
      hint = absl::StrCat("; there is one in ", Called(elsewhere->path), ";");
      break;
    }
  }
  problems_->Add(
      Join(path, entry.key), entry.where,
      absl::StrCat("unknown key '", entry.key, "' in ", Called(path), hint.empty() ? ";" : hint,
                   " valid keys: ", absl::StrJoin(valid, ", ")));
}

void SchemaChecker::FillIn(const SchemaKey& key, const std::string& path,
                           const std::string& selected, config::YamlNode* node) {
  if (key.fallback == nullptr) {
    // What each of the names means would be a page.
    const bool of_names = key.type == KeyType::kChoice;
    const bool section = key.type == KeyType::kSection;
    const std::string type = section ? KeysText(*key.Sub(), selected) : TypeText(key);
    problems_->Add(Join(path, key.name), node->where,
                   absl::StrCat(Called(path), ": '", key.name, "' is missing (", type, ")",
                                of_names ? "" : ": ", of_names ? "" : key.help));
    return;
  }
  config::YamlNode value = DefaultOf(key);
  if (value.kind == Kind::kNull) return;
  MarkFilledIn(node->where, &value);
  node->entries.push_back({key.name, "", std::move(value)});
  CheckValue(key, Join(path, key.name), selected, &node->entries.back().value);
}

void SchemaChecker::CheckValue(const SchemaKey& key, const std::string& path,
                               const std::string& selected, config::YamlNode* value) {
  switch (key.type) {
    case KeyType::kSection:
      TakeDefault(key, value);
      CheckSection(*key.Sub(), path, selected, value);
      return;
    case KeyType::kSections:
    case KeyType::kStrings:
    case KeyType::kInts:
    case KeyType::kReals:
      CheckList(key, path, value);
      return;
    case KeyType::kNamed:
      if (value->kind != Kind::kMap) {
        problems_->Add(path, value->where,
                       absl::StrCat(path, ": wanted names, found ", value->Describe()));
        return;
      }
      for (config::YamlEntry& entry : value->entries) {
        (*locations_)[Join(path, entry.key)] = entry.where;
        CheckSection(*key.Sub(), Join(path, entry.key), selected, &entry.value);
      }
      return;
    default:
      CheckScalar(key, path, *value);
  }
}

void SchemaChecker::CheckList(const SchemaKey& key, const std::string& path,
                              config::YamlNode* value) {
  if (key.type == KeyType::kStrings && value->kind == Kind::kScalar) {
    config::YamlNode item = *value;
    value->kind = Kind::kList;
    value->items.push_back(std::move(item));
  }
  const bool may_be_empty = key.type == KeyType::kInts || key.type == KeyType::kReals;
  if (value->kind != Kind::kList || (value->items.empty() && !may_be_empty)) {
    problems_->Add(path, value->where,
                   absl::StrCat(path, ": wanted ", TypeText(key), ", found ",
                                value->kind == Kind::kList ? "an empty one" : value->Describe()));
    return;
  }
  for (size_t i = 0; i < value->items.size(); ++i) {
    config::YamlNode& item = value->items[i];
    std::string item_path = Join(path, absl::StrCat(i));
    if (key.type != KeyType::kSections) {
      SchemaKey element = key;
      element.type = key.type == KeyType::kInts    ? KeyType::kInt
                     : key.type == KeyType::kReals ? KeyType::kReal
                                                   : KeyType::kString;
      if (!item.where.empty()) (*locations_)[item_path] = item.where;
      CheckScalar(element, item_path, item);
      continue;
    }
    const config::YamlEntry* name = item.Find("name");
    if (name != nullptr && !name->value.text.empty()) item_path = Join(path, name->value.text);
    (*locations_)[item_path] = item.where;
    CheckSection(*key.Sub(), item_path, "", &item);
  }
}

void SchemaChecker::CheckScalar(const SchemaKey& key, const std::string& path,
                                const config::YamlNode& value) {
  bool good = value.kind == Kind::kScalar;
  std::string hint;
  int64_t integer = 0;
  double real = 0;
  switch (key.type) {
    case KeyType::kBool:
      good = good && !value.quoted && (value.text == "true" || value.text == "false");
      break;
    case KeyType::kInt:
      good = IsInt(value, &integer) && InRange(key, static_cast<double>(integer));
      break;
    case KeyType::kBytes:
      good = IsBytes(value, &integer) && InRange(key, static_cast<double>(integer));
      break;
    case KeyType::kReal:
      good = IsReal(value, &real) && InRange(key, real);
      if (good) hint = WrongInF32(key, real);
      good = good && hint.empty();
      break;
    case KeyType::kChoice:
      good = good && HasWord(key.choices, value.text);
      if (!good) hint = config::DidYouMean(value.text, Words(key.choices));
      break;
    default:
      break;
  }
  if (good) return;
  problems_->Add(
      path, value.where,
      absl::StrCat(path, ": wanted ", TypeText(key), "; found ", value.Describe(), hint));
}

const config::YamlNode* SectionView::Find(absl::string_view key) const {
  const config::YamlEntry* entry = node_ == nullptr ? nullptr : node_->Find(key);
  return entry == nullptr ? nullptr : &entry->value;
}

bool SectionView::Given(absl::string_view key) const {
  const config::YamlEntry* entry = node_ == nullptr ? nullptr : node_->Find(key);
  return entry != nullptr && !entry->where.empty();
}

bool SectionView::Bool(absl::string_view key) const { return String(key) == "true"; }

int64_t SectionView::Int(absl::string_view key) const {
  const config::YamlNode* value = Find(key);
  int64_t integer = 0;
  return value != nullptr && IsBytes(*value, &integer) ? integer : 0;
}

double SectionView::Real(absl::string_view key) const {
  const config::YamlNode* value = Find(key);
  double real = 0;
  return value != nullptr && IsReal(*value, &real) ? real : 0;
}

std::string SectionView::String(absl::string_view key) const {
  const config::YamlNode* value = Find(key);
  return value == nullptr ? "" : value->text;
}

std::vector<std::string> SectionView::Strings(absl::string_view key) const {
  std::vector<std::string> strings;
  if (const config::YamlNode* value = Find(key)) {
    for (const config::YamlNode& item : value->items) strings.push_back(item.text);
  }
  return strings;
}

std::vector<int64_t> SectionView::Ints(absl::string_view key) const {
  std::vector<int64_t> integers;
  if (const config::YamlNode* value = Find(key)) {
    for (const config::YamlNode& item : value->items) IsInt(item, &integers.emplace_back());
  }
  return integers;
}

std::vector<double> SectionView::Reals(absl::string_view key) const {
  std::vector<double> numbers;
  if (const config::YamlNode* value = Find(key)) {
    for (const config::YamlNode& item : value->items) IsReal(item, &numbers.emplace_back());
  }
  return numbers;
}

std::vector<SectionView> SectionView::Sections(absl::string_view key) const {
  std::vector<SectionView> sections;
  if (const config::YamlNode* value = Find(key)) {
    for (const config::YamlNode& item : value->items) sections.emplace_back(&item);
  }
  return sections;
}

std::vector<std::string> SectionView::Keys() const {
  std::vector<std::string> keys;
  if (node_ == nullptr) return keys;
  for (const config::YamlEntry& entry : node_->entries) {
    if (!entry.where.empty()) keys.push_back(entry.key);
  }
  return keys;
}

}  // namespace coxswain::job
