#include "coordinator/cli/user_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/name_list.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::cli {
namespace {

template <typename... Args>
absl::Status Wrong(const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat("--value: ", what...));
}

absl::StatusOr<RawValue> ValueFor(const RawColumn& column, std::string text) {
  if (column.kind != RawColumn::Kind::kValues) return RawValue(std::move(text));
  if (text.empty()) return RawValue(std::vector<std::string>());
  auto names = SplitNames(text);
  if (!names.ok()) return Wrong(column.name, ": ", names.status().message());
  return RawValue(*std::move(names));
}

}  // namespace

absl::StatusOr<std::vector<RawValue>> ValuesOf(absl::Span<const RawColumn> columns,
                                               absl::Span<const std::string> pairs) {
  std::vector<std::string> names;
  for (const RawColumn& column : columns) names.push_back(column.name);
  std::vector<RawValue> values(columns.size());
  std::vector<bool> given(columns.size(), false);
  for (const std::string& pair : pairs) {
    const size_t end = pair.find('=');
    if (end == std::string::npos) {
      return Wrong("wanted NAME=VALUE, found ", data::Quoted(pair));
    }
    const std::string name = pair.substr(0, end);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return Wrong(data::Quoted(name), " is nothing that describes a user of this model; ",
                   data::Alternatives(name, names));
    }
    const auto at = static_cast<size_t>(found - names.begin());
    if (given[at]) return Wrong(data::Quoted(name), " is there twice");
    given[at] = true;
    ASSIGN_OR_RETURN(values[at], ValueFor(columns[at], pair.substr(end + 1)));
  }
  for (size_t at = 0; at < columns.size(); ++at) {
    if (given[at]) continue;
    if (columns[at].kind != RawColumn::Kind::kValues) {
      return Wrong("there is none for ", data::Quoted(names[at]), "; a user is described by ",
                   absl::StrJoin(names, ", "));
    }
    values[at] = std::vector<std::string>();
  }
  return values;
}

}  // namespace coxswain::cli
