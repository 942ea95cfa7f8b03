#include "coordinator/job/changed_keys.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/checked_yaml.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::job {
namespace {

using config::YamlNode;
using Values = std::map<std::string, std::string>;  // by key

// Keys of how long, where and how safely a job trains, and of what is measured.
constexpr const char* kOthers[] = {"name",
                                   "checkpoint",
                                   "cluster",
                                   "evaluate",
                                   "parameter_servers",
                                   "train.epochs",
                                   "train.steps",
                                   "train.early_stopping",
                                   "train.log_every",
                                   "train.on_error",
                                   "train.closures_in_flight"};

bool Shapes(const std::string& key) {
  return std::none_of(std::begin(kOthers), std::end(kOthers), [&](const char* other) {
    return key == other || absl::StartsWith(key, absl::StrCat(other, "."));
  });
}

std::string TextOf(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kScalar) return node.text;
  if (node.kind != YamlNode::Kind::kList) return "";
  return absl::StrCat("[",
                      absl::StrJoin(node.items, ", ",
                                    [](std::string* out, const YamlNode& item) {
                                      absl::StrAppend(out, TextOf(item));
                                    }),
                      "]");
}

void Flatten(const std::string& key, const YamlNode& node, Values* values) {
  const std::string prefix = key.empty() ? key : key + ".";
  if (node.kind == YamlNode::Kind::kMap) {
    for (const config::YamlEntry& entry : node.entries) {
      Flatten(prefix + entry.key, entry.value, values);
    }
    return;
  }
  const bool of_maps = node.kind == YamlNode::Kind::kList &&
                       std::any_of(node.items.begin(), node.items.end(), [](const YamlNode& item) {
                         return item.kind == YamlNode::Kind::kMap;
                       });
  if (!of_maps) {
    (*values)[key] = TextOf(node);
    return;
  }
  for (size_t i = 0; i < node.items.size(); ++i) {
    const config::YamlEntry* const name = node.items[i].Find("name");
    Flatten(absl::StrCat(prefix, name == nullptr ? absl::StrCat(i) : TextOf(name->value)),
            node.items[i], values);
  }
}

std::optional<Values> Read(const JobText& job) {
  absl::StatusOr<YamlNode> root = config::ParseYaml(job.text, "job");
  if (!root.ok()) return std::nullopt;
  for (const std::string& flag : job.overrides) {
    if (!ApplyOverride(flag, &*root).ok()) return std::nullopt;
  }
  Values values;
  Flatten("", *root, &values);
  return values;
}

}  // namespace

std::vector<std::string> ChangedKeys(const JobText& before, const JobText& now) {
  const std::optional<Values> old_values = Read(before), new_values = Read(now);
  std::vector<std::string> changed;
  if (!old_values || !new_values) return changed;
  std::set<std::string> keys;
  for (const Values* values : {&*old_values, &*new_values}) {
    for (const auto& [key, value] : *values) keys.insert(key);
  }
  const auto value_of = [](const Values& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("none") : found->second;
  };
  for (const std::string& key : keys) {
    const std::string was = value_of(*old_values, key), is = value_of(*new_values, key);
    if (was != is && Shapes(key)) changed.push_back(absl::StrCat(key, ": ", was, ", now ", is));
  }
  return changed;
}

}  // namespace coxswain::job
