#include "coordinator/serve/http_head.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::serve {
namespace {

constexpr char kLength[] = "Content-Length", kCoding[] = "Transfer-Encoding";
constexpr size_t kMostDigits = 18;

template <typename... Args>
absl::Status Wrong(const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

bool IsName(absl::string_view text) {
  constexpr absl::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kMarks.find(c) != absl::string_view::npos;
  });
}

absl::Status CheckLengths(const std::vector<absl::string_view>& lengths) {
  for (const absl::string_view length : lengths) {
    const bool number =
        !length.empty() && length.size() <= kMostDigits &&
        std::all_of(length.begin(), length.end(), [](char c) { return '0' <= c && c <= '9'; });
    if (!number) {
      return Wrong(kLength, ": wanted a number of bytes, found ", data::Quoted(length));
    }
  }
  if (lengths.size() <= 1) return absl::OkStatus();
  return Wrong("the request has ", kLength, " more than once: ", absl::StrJoin(lengths, ", "));
}

absl::Status CheckCodings(const std::vector<absl::string_view>& codings,
                          absl::string_view version) {
  if (!codings.empty() && version == "HTTP/1.0") {
    return Wrong("the request has ", kCoding, ", which HTTP/1.0 does not know");
  }
  for (const absl::string_view coding : codings) {
    if (codings.size() == 1 && absl::EqualsIgnoreCase(coding, "chunked")) continue;
    return Wrong(kCoding, ": wanted chunked, and nothing else, found ",
                 data::Quoted(absl::StrJoin(codings, ", ")));
  }
  return absl::OkStatus();
}

// Without the spaces and tabs around it. Other white space belongs to the value.
absl::string_view Stripped(absl::string_view value) {
  const size_t begin = value.find_first_not_of(" \t");
  if (begin == absl::string_view::npos) return "";
  return value.substr(begin, value.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

absl::Status CheckHead(absl::string_view head, absl::string_view version) {
  std::vector<absl::string_view> lengths, codings;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(head, "\r\n")) {
    if (number++ == 0 || line.empty()) continue;
    const size_t colon = line.find(':');
    const bool header = colon != absl::string_view::npos && IsName(line.substr(0, colon)) &&
                        line.find_first_of(absl::string_view("\r\n\0", 3)) == line.npos;
    if (!header) return Wrong("wanted a header, a name and its value, found ", data::Quoted(line));
    const absl::string_view name = line.substr(0, colon), value = Stripped(line.substr(colon + 1));
    if (absl::EqualsIgnoreCase(name, kLength)) lengths.push_back(value);
    if (absl::EqualsIgnoreCase(name, kCoding)) codings.push_back(value);
  }
  RETURN_IF_ERROR(CheckLengths(lengths));
  RETURN_IF_ERROR(CheckCodings(codings, version));
  if (lengths.empty() || codings.empty()) return absl::OkStatus();
  return Wrong("the request has both ", kLength, " and ", kCoding, ": where it ends is not clear");
}

}  // namespace coxswain::serve
