#include "runtime/data/names.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

constexpr size_t kShownBytes = 40;
constexpr size_t kShownNames = 40;

// Levenshtein's distance, blind to case.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = absl::ascii_tolower(a[i - 1]) == absl::ascii_tolower(b[j - 1]);
      const size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Quoted(absl::string_view text) {
  const bool cut = text.size() > kShownBytes;
  size_t shown = std::min(text.size(), kShownBytes);
  // Do not cut a UTF-8 character in two.
  while (cut && shown > 0 && (static_cast<unsigned char>(text[shown]) & 0xc0) == 0x80) --shown;
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, shown)), cut ? "...\"" : "\"");
}

std::string Alternatives(absl::string_view name, absl::Span<const std::string> names) {
  if (names.empty()) return "there are none";
  std::string text;
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& other : names) {
    if (other.size() > 2 * name.size() + 2) continue;
    const size_t distance = EditDistance(name, other);
    if (distance < best) {
      best = distance;
      nearest = &other;
    }
  }
  if (nearest != nullptr) absl::StrAppend(&text, "did you mean ", Quoted(*nearest), "? ");
  absl::StrAppend(&text, "there are: ");
  for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", absl::Utf8SafeCEscape(names[i]));
  }
  if (names.size() > kShownNames) {
    absl::StrAppend(&text, " and ", names.size() - kShownNames, " more");
  }
  return text;
}

}  // namespace coxswain
