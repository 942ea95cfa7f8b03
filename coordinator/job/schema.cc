#include "coordinator/job/schema.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/logging.h"

namespace coxswain::job {
namespace {

// All integers up to this have a double of their own.
constexpr double kMostWhole = 9007199254740992;

std::string Number(const SchemaKey& key, double value) {
  if (key.type == KeyType::kBytes) {
    const char* const units[] = {"TiB", "GiB", "MiB", "KiB"};
    double unit = int64_t{1} << 40;
    for (const char* const name : units) {
      if (value >= unit && std::fmod(value, unit) == 0) return absl::StrCat(value / unit, name);
      unit /= 1024;
    }
  }
  return value == std::floor(value) && std::abs(value) <= kMostWhole
             ? absl::StrCat(static_cast<int64_t>(value))
             : absl::StrCat(value);
}

std::string Range(const SchemaKey& key) {
  std::string text;
  const std::string min = Number(key, key.min), max = Number(key, key.max);
  const bool two = std::isfinite(key.min) && std::isfinite(key.max);
  if (two && !key.below_max) return absl::StrCat(" ", min, "..", max);
  if (std::isfinite(key.min)) absl::StrAppend(&text, key.above_min ? " > " : " >= ", min);
  if (std::isfinite(key.max)) {
    absl::StrAppend(&text, two ? "," : "", key.below_max ? " < " : " <= ", max);
  }
  return text;
}

}  // namespace

std::vector<const SchemaSection*> AllSections(const SchemaSection& section) {
  std::vector<const SchemaSection*> all = {&section};
  for (const SchemaKey& key : section.keys) {
    if (key.Sub() == nullptr) continue;
    for (const SchemaSection* below : AllSections(*key.Sub())) {
      if (std::find(all.begin(), all.end(), below) == all.end()) all.push_back(below);
    }
  }
  return all;
}

const SchemaSection& JobSection(absl::string_view path) {
  for (const SchemaSection* section : AllSections(JobSchema())) {
    if (section->path == path) return *section;
  }
  COX_CHECK(false, path);
  return JobSchema();
}

std::string TypeText(const SchemaKey& key) {
  using enum KeyType;
  switch (key.type) {
    case kBool:
      return "true or false";
    case kInt:
      return absl::StrCat("integer", Range(key));
    case kBytes:
      return absl::StrCat("bytes", Range(key), ", such as 512MiB");
    case kReal:
      return absl::StrCat("number", Range(key));
    case kString:
      return "string";
    case kChoice:
      return absl::StrCat("one of ", absl::StrJoin(Words(key.choices), ", "));
    case kStrings:
      return "string or list of strings";
    case kInts:
      return absl::StrCat("list of integers", Range(key));
    case kReals:
      return absl::StrCat("list of numbers", Range(key));
    case kSection:
    case kNamed:
      return "keys";
    case kSections:
      return "list of keys";
  }
  return "";
}

std::string SchemaTable(const SchemaSection& section) {
  std::string table = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const SchemaKey& key : section.keys) {
    std::string fallback = "required";
    if (key.fallback != nullptr) {
      const absl::string_view text = key.fallback;
      fallback = absl::StartsWith(text, "=") ? std::string(text.substr(1))
                 : text.empty()              ? std::string()
                                             : absl::StrCat("`", text, "`");
    }
    const std::string only = absl::StrJoin(Words(key.only), ", ");
    absl::StrAppend(&table, "| `", key.name, "` | ", TypeText(key), " | ", fallback, " | ",
                    only.empty() ? "" : absl::StrCat("*", only, "*: "), key.help, " |\n");
  }
  return table;
}

std::vector<std::string> Words(absl::string_view text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

bool HasWord(absl::string_view words, absl::string_view word) {
  for (absl::string_view w : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    if (w == word) return true;
  }
  return false;
}

}  // namespace coxswain::job
