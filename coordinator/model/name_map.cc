#include "coordinator/model/name_map.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/model/model_parts.h"
#include "runtime/data/names.h"

namespace coxswain::model {

absl::StatusOr<NameMap> NameMap::Parse(const std::vector<std::string>& texts) {
  NameMap map;
  for (const std::string& text : texts) {
    const size_t at = text.find('=');
    Entry entry;
    if (at != std::string::npos) entry = {text.substr(0, at), text.substr(at + 1)};
    if (entry.old_name.empty() || entry.new_name.empty() ||
        absl::StrContains(entry.new_name, '=')) {
      return absl::InvalidArgumentError(absl::StrCat(
          "wanted OLD=NEW, a name in the model and one in the job, found ", data::Quoted(text)));
    }
    if (map.Find(entry.new_name) >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("two names are to become ", data::Quoted(entry.new_name)));
    }
    map.entries_.push_back(std::move(entry));
  }
  return map;
}

int NameMap::Find(absl::string_view new_name) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.new_name == new_name; });
  return it == entries_.end() ? -1 : static_cast<int>(it - entries_.begin());
}

std::string NameMap::OldFeature(const std::string& feature) const {
  const int at = Find(feature);
  return at < 0 ? feature : entries_[static_cast<size_t>(at)].old_name;
}

std::string NameMap::OldVariable(const job::JobSpec& job, const std::string& variable,
                                 int* used) const {
  size_t length = variable.size();  // of what the entry stands for
  *used = Find(variable);
  const job::TableSpec* const table = job.FindTable(variable);
  if (*used < 0 && table != nullptr && absl::StartsWith(variable, table->feature)) {
    length = table->feature.size();
    *used = Find(table->feature);
  }
  for (const proto::FeatureSpec& feature : job.dataset.features()) {
    if (*used >= 0 || WideName(feature.name()) != variable) continue;
    *used = Find(feature.name());
    if (*used >= 0) return WideName(entries_[static_cast<size_t>(*used)].old_name);
  }
  for (size_t at = variable.rfind('/'); *used < 0 && at != std::string::npos && at > 0;
       at = variable.rfind('/', at - 1)) {
    length = at;
    *used = Find(absl::string_view(variable).substr(0, at));
  }
  if (*used < 0) return variable;
  return entries_[static_cast<size_t>(*used)].old_name + variable.substr(length);
}

}  // namespace coxswain::model
