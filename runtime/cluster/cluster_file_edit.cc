// Changes the list of workers within the text of a cluster file, so that what people wrote around
// the addresses stays. The result is read again, and thrown away if it does not say what it should.
#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::cluster {
namespace {

constexpr absl::string_view kBlanks = " \t";

// Only plain words need no quotes: "[::1]:1" would be a list.
std::string AsScalar(const std::string& address, char quote) {
  const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(address[0])) &&
                     !absl::StrContains(address, "%");
  if (quote == '\0' && plain) return address;
  const std::string q(1, quote == '\0' ? '"' : quote);
  return absl::StrCat(q, address, q);
}

// Where an item of a list is written in the text.
struct Place {
  size_t begin = 0, end = 0;  // of the scalar, with its quotes
  char quote = '\0';
  size_t line = 0;      // where its line begins
  size_t next = 0;      // where the next line does
  std::string leading;  // what stands before it on its line
};

// Nullopt when the text there is not the item.
std::optional<Place> Find(absl::string_view text, const config::YamlNode& item) {
  const std::vector<std::string> where = absl::StrSplit(item.where, ':');  // "file:line:column"
  size_t line = 0, column = 0;
  if (where.size() < 3 || !absl::SimpleAtoi(where[where.size() - 2], &line) ||
      !absl::SimpleAtoi(where.back(), &column) || line < 1 || column < 1) {
    return std::nullopt;
  }
  Place place;
  for (; line > 1; --line) {
    const size_t end = text.find('\n', place.line);
    if (end == absl::string_view::npos) return std::nullopt;
    place.line = end + 1;
  }
  place.begin = place.line + column - 1;
  if (place.begin >= text.size()) return std::nullopt;
  if (text[place.begin] == '"' || text[place.begin] == '\'') place.quote = text[place.begin];
  const size_t quote = place.quote == '\0' ? 0 : 1;
  place.end = place.begin + item.text.size() + 2 * quote;
  if (place.end > text.size() || text.substr(place.begin + quote, item.text.size()) != item.text) {
    return std::nullopt;
  }
  const size_t end = text.find('\n', place.end);
  place.next = end == absl::string_view::npos ? text.size() : end + 1;
  place.leading = std::string(text.substr(place.line, place.begin - place.line));
  return place;
}

// "  - " before an item: a list with a line for each.
bool IsBlockItem(const Place& place) {
  const absl::string_view dash = absl::StripAsciiWhitespace(place.leading);
  return dash == "-" && kBlanks.find(place.leading.back()) != absl::string_view::npos;
}

std::string AppendAfter(absl::string_view text, const Place& last, const std::string& address) {
  const std::string scalar = AsScalar(address, last.quote);
  if (!IsBlockItem(last)) {
    return absl::StrCat(text.substr(0, last.end), ", ", scalar, text.substr(last.end));
  }
  const absl::string_view line = text.substr(last.line, last.next - last.line);
  const bool ended = absl::EndsWith(line, "\n");
  const absl::string_view end = absl::EndsWith(line, "\r\n") ? "\r\n" : "\n";
  return absl::StrCat(text.substr(0, last.next), ended ? "" : end, last.leading, scalar,
                      ended ? end : "", text.substr(last.next));
}

std::string RemoveAfter(absl::string_view text, const Place& before, const Place& last) {
  if (IsBlockItem(last)) {
    return absl::StrCat(text.substr(0, last.line), text.substr(last.next));
  }
  return absl::StrCat(text.substr(0, before.end), text.substr(last.end));
}

std::string Replace(absl::string_view text, const Place& place, const std::string& address) {
  return absl::StrCat(text.substr(0, place.begin), AsScalar(address, place.quote),
                      text.substr(place.end));
}

// Makes worker `i` the given one, or ends the list before it when there is none. Nullopt: not
// possible within this text.
std::optional<std::string> Edit(absl::string_view text, const std::string& file_name, size_t i,
                                const std::string* address) {
  const auto root = config::ParseYaml(text, file_name);
  if (!root.ok()) return std::nullopt;
  const config::YamlEntry* entry = root->Find("worker");
  if (entry == nullptr || entry->value.items.empty()) return std::nullopt;
  const std::vector<config::YamlNode>& items = entry->value.items;
  const auto place = Find(text, items[std::min(i, items.size() - 1)]);
  if (!place) return std::nullopt;
  if (i == items.size() && address != nullptr) return AppendAfter(text, *place, *address);
  if (i >= items.size()) return std::nullopt;
  if (address != nullptr) return Replace(text, *place, *address);
  if (i == 0) return std::nullopt;
  const auto before = Find(text, items[i - 1]);
  if (!before) return std::nullopt;
  return RemoveAfter(text, *before, *place);
}

bool Says(absl::string_view text, const std::string& file_name, const ClusterConfig& wanted) {
  const auto config = ParseClusterConfig(text, file_name);
  return config.ok() && config->workers == wanted.workers && config->ps == wanted.ps;
}

// The lines of the file's first comment.
std::string FirstComment(absl::string_view text) {
  std::string comment;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "#")) break;
    absl::StrAppend(&comment, line, "\n");
  }
  return comment;
}

}  // namespace

std::string FormatClusterConfig(const ClusterConfig& config) {
  std::string text;
  for (const auto* job : {&config.ps, &config.workers}) {
    absl::StrAppend(&text, job == &config.ps ? "ps:\n" : "worker:\n");
    for (const std::string& a : *job) absl::StrAppend(&text, "  - ", AsScalar(a, '\0'), "\n");
  }
  return text;
}

absl::StatusOr<std::string> WithWorkers(absl::string_view text, const std::string& file_name,
                                        const std::vector<std::string>& workers, bool* rewritten) {
  if (rewritten != nullptr) *rewritten = false;
  ASSIGN_OR_RETURN(ClusterConfig config, ParseClusterConfig(text, file_name));
  const std::vector<std::string> now = config.workers;
  config.workers = workers;
  // The new list by itself; it fails with its own message.
  const std::string anew = FormatClusterConfig(config);
  RETURN_IF_ERROR(ParseClusterConfig(anew, absl::StrCat(file_name, ", changed")).status());
  std::optional<std::string> edited = std::string(text);
  for (size_t i = now.size(); edited && i > workers.size(); --i) {
    edited = Edit(*edited, file_name, i - 1, nullptr);
  }
  for (size_t i = 0; edited && i < workers.size(); ++i) {
    if (i >= now.size() || now[i] != workers[i]) edited = Edit(*edited, file_name, i, &workers[i]);
  }
  if (edited && Says(*edited, file_name, config)) return *std::move(edited);
  if (rewritten != nullptr) *rewritten = true;
  return absl::StrCat(FirstComment(text), anew);
}

}  // namespace coxswain::cluster
