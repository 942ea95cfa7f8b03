// --set key.path=value
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/job/checked_yaml.h"
#include "runtime/base/status.h"

namespace coxswain::job {
namespace {

using Kind = config::YamlNode::Kind;

constexpr size_t kMaxParts = 16;

void SetWhere(const std::string& where, config::YamlNode* node) {
  node->where = where;
  for (config::YamlNode& item : node->items) SetWhere(where, &item);
  for (config::YamlEntry& entry : node->entries) {
    entry.where = where;
    SetWhere(where, &entry.value);
  }
}

absl::StatusOr<config::YamlNode> ParseValue(const std::string& text, const std::string& where) {
  config::YamlNode value;
  if (absl::string_view("[{\"'").find(text[0]) != absl::string_view::npos) {
    ASSIGN_OR_RETURN(value, config::ParseYaml(text, "value"));
  } else {
    value.kind = Kind::kScalar;
    value.text = text;
  }
  SetWhere(where, &value);
  return value;
}

// The element of a list that `part` names, by its `name` or by index; null when there is none.
config::YamlNode* Element(const std::string& part, config::YamlNode* list) {
  for (config::YamlNode& item : list->items) {
    const config::YamlEntry* name = item.Find("name");
    if (name != nullptr && name->value.text == part) return &item;
  }
  size_t index = 0;
  if (!absl::SimpleAtoi(part, &index) || index >= list->items.size()) return nullptr;
  return &list->items[index];
}

std::string ElementNames(const config::YamlNode& list) {
  std::vector<std::string> names;
  for (size_t i = 0; i < list.items.size(); ++i) {
    const config::YamlEntry* name = list.items[i].Find("name");
    names.push_back(name != nullptr ? name->value.text : absl::StrCat(i));
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::Status ApplyOverride(const std::string& flag, config::YamlNode* root) {
  const std::string where = absl::StrCat("--set ", flag);
  const auto error = [&](const std::string& message) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", message));
  };
  const std::pair<std::string, std::string> halves = absl::StrSplit(flag, absl::MaxSplits('=', 1));
  const std::vector<std::string> parts = absl::StrSplit(halves.first, '.');
  const bool empty_part = std::count(parts.begin(), parts.end(), "") > 0;
  if (flag.find('=') == std::string::npos || empty_part || parts.size() > kMaxParts) {
    return error("wanted key=value, where key is a path such as train.batch_size");
  }
  const bool removes = halves.second.empty();
  config::YamlNode* node = root;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const std::string path = absl::StrJoin(parts.begin(), parts.begin() + i, ".");
    if (node->kind == Kind::kList) {
      config::YamlNode* element = Element(parts[i], node);
      if (element == nullptr) {
        return error(absl::StrCat("'", path, "' has no element '", parts[i],
                                  "'; it has: ", ElementNames(*node)));
      }
      if (last && removes) {
        node->items.erase(node->items.begin() + (element - node->items.data()));
        return absl::OkStatus();
      }
      node = element;
    } else if (node->kind == Kind::kScalar) {
      return error(absl::StrCat("'", path, "' is a value and has no keys below it"));
    } else {
      if (last && removes) {
        auto& entries = node->entries;
        entries.erase(std::remove_if(entries.begin(), entries.end(),
                                     [&](const config::YamlEntry& e) { return e.key == parts[i]; }),
                      entries.end());
        return absl::OkStatus();
      }
      config::YamlEntry* entry = node->Find(parts[i]);
      if (entry == nullptr && removes) {
        return error(absl::StrCat("there is no '",
                                  absl::StrJoin(parts.begin(), parts.begin() + i + 1, "."),
                                  "' to remove it from"));
      }
      if (node->kind == Kind::kNull) {
        node->kind = Kind::kMap;
        node->where = where;
      }
      if (entry == nullptr) {
        entry = &node->entries.emplace_back();
        entry->key = parts[i];
      }
      // What is wrong with a key or its value from here on is the flag's doing.
      if (last || entry->where.empty()) entry->where = where;
      node = &entry->value;
    }
  }
  absl::StatusOr<config::YamlNode> value = ParseValue(halves.second, where);
  if (!value.ok()) return error(std::string(value.status().message()));
  *node = *std::move(value);
  return absl::OkStatus();
}

}  // namespace coxswain::job
