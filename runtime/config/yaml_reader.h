// YAML as a plain tree in which every key and value knows where it stands. The one place that knows
// the YAML library; its exceptions stop here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain::config {

// Of a text; the largest cluster's file has some 100 KB.
inline constexpr size_t kMaxYamlBytes = size_t{1} << 20;

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;                // of a scalar, without its quotes
  bool quoted = false;             // a quoted scalar is a string, whatever it looks like
  std::string where;               // "job.yaml:12:3", lines and columns from 1
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a map, in the order of the file

  const YamlEntry* Find(absl::string_view key) const;
  YamlEntry* Find(absl::string_view key);
  // "a number", "a list", "nothing": what a message says was found.
  std::string Describe() const;
};

struct YamlEntry {
  std::string key;
  std::string where;  // of the key
  YamlNode value;
};

// InvalidArgument with cause kConfiguration.
absl::Status ConfigurationError(absl::string_view message);

// One document. `name` is what `where` begins with. An empty document is a kNull node.
// Errors: ConfigurationError "name:line:column: ..." for text that is not YAML, whatever follows
// the document, a key that is given twice or is no scalar, an alias within its own anchor, and
// documents that are too deep (32 levels) or, with aliases, too large (200,000 values,
// kMaxYamlBytes).
absl::StatusOr<YamlNode> ParseYaml(absl::string_view text, const std::string& name);

// The text of a file. Errors: NotFound or PermissionDenied; ConfigurationError for a pipe or a
// device, which may have no end, and for more than `max_bytes`. The message names the path.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes = kMaxYamlBytes);

// "; did you mean 'x'?" or "".
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known);

// "unknown feature 'itm'; did you mean 'item'? there is: item, user".
std::string UnknownName(absl::string_view what, absl::string_view word,
                        const std::vector<std::string>& known);

}  // namespace coxswain::config
