#include "runtime/data/csv_scan.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace coxswain::data {

size_t CsvScan::SkipBlanks(absl::string_view text, size_t at) const {
  if (!format_.trim) return at;
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t') &&
         !absl::StartsWith(text.substr(at), format_.separator)) {
    ++at;
  }
  return at;
}

size_t CsvScan::SkipLines(absl::string_view text, size_t at) const {
  while (true) {
    const size_t end = text.find('\n', at);
    if (end == kNowhere) return kNowhere;
    absl::string_view line = text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool comment = !format_.comment.empty() && absl::StartsWith(line, format_.comment);
    if (!comment && SkipBlanks(line, 0) != line.size()) return at;
    at = end + 1;
  }
}

size_t CsvScan::CloseQuote(absl::string_view text, size_t at) const {
  while (true) {
    at = text.find('"', at);
    if (at == kNowhere || at + 1 == text.size()) return kNowhere;
    if (text[at + 1] != '"') return at + 1;
    at += 2;
  }
}

CsvScan::Found CsvScan::Find(absl::string_view text, bool quoted, int64_t least) const {
  Found found;
  if (!quoted && least <= 0) found.end = 0;
  const absl::string_view separator = format_.separator;
  bool counted = !quoted;  // the record is read from its beginning
  bool begins = !quoted;
  size_t fields = 0;  // that ended, of the record
  for (size_t at = 0;;) {
    if (begins) {
      at = SkipLines(text, at);
      if (at == kNowhere) return found;
      begins = false;
      fields = 0;
    }
    if (!quoted) at = SkipBlanks(text, at);
    if (quoted || (at < text.size() && text[at] == '"')) {
      at = CloseQuote(text, quoted ? at : at + 1);
      quoted = false;
      if (at == kNowhere) {
        if (whole_ && !absl::EndsWith(text, "\"")) found.wrong = text.size();
        return found;
      }
      at = SkipBlanks(text, at);
    } else {
      const size_t line_end = std::min(text.find('\n', at), text.size());
      at += std::min(text.substr(at, line_end - at).find(separator), line_end - at);
    }
    if (at + std::max<size_t>(2, separator.size()) > text.size()) {
      // It may go on there in any way, but for a line end.
      if (at >= text.size() || text[at] != '\n') return found;
    }
    if (absl::StartsWith(text.substr(at), separator)) {
      at += separator.size();
      ++fields;
      continue;
    }
    if (text[at] == '\r' && text[at + 1] == '\n') ++at;
    ++fields;
    if (text[at] != '\n' || (counted ? fields != columns_ : fields > columns_)) {
      found.wrong = at;
      return found;
    }
    ++at;
    if (found.end < 0 && static_cast<int64_t>(at) >= least) found.end = static_cast<int64_t>(at);
    counted = true;
    begins = true;
  }
}

}  // namespace coxswain::data
