#include "runtime/data/names.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/nearest_name.h"
#include "runtime/data/utf8.h"

namespace coxswain::data {
namespace {

constexpr size_t kShownBytes = 40;
constexpr size_t kShownNames = 40;

// What a terminal can show, whatever it is.
std::string Escaped(absl::string_view text) {
  return IsUtf8(text) ? absl::Utf8SafeCEscape(text) : absl::CEscape(text);
}

}  // namespace

std::string Quoted(absl::string_view text) {
  const bool cut = text.size() > kShownBytes;
  size_t shown = std::min(text.size(), kShownBytes);
  // Do not cut a UTF-8 character in two.
  while (cut && shown > 0 && (static_cast<unsigned char>(text[shown]) & 0xc0) == 0x80) --shown;
  return absl::StrCat("\"", Escaped(text.substr(0, shown)), cut ? "...\"" : "\"");
}

std::string Alternatives(absl::string_view name, absl::Span<const std::string> names) {
  if (names.empty()) return "there are none";
  std::string text;
  const std::string nearest = NearestName(name, names);
  if (!nearest.empty()) absl::StrAppend(&text, "did you mean ", Quoted(nearest), "? ");
  absl::StrAppend(&text, "there are: ");
  for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", Escaped(names[i]));
  }
  if (names.size() > kShownNames) {
    absl::StrAppend(&text, " and ", names.size() - kShownNames, " more");
  }
  return text;
}

}  // namespace coxswain::data
