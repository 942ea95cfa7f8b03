#include "runtime/data/word_scanner.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/data/utf8.h"

namespace coxswain::data {
namespace {

enum ByteKind : uint8_t { kLetter, kBlank, kLineEnd, kControl, kBeyondAscii };

constexpr std::array<ByteKind, 256> ByteKinds() {
  std::array<ByteKind, 256> kinds{};
  for (int c = 0; c < 256; ++c) {
    kinds[static_cast<size_t>(c)] = c >= 0x80                 ? kBeyondAscii
                                    : (c < 0x20 || c == 0x7f) ? kControl
                                                              : kLetter;
  }
  for (const char c : {' ', '\t', '\r', '\v', '\f'}) kinds[static_cast<size_t>(c)] = kBlank;
  kinds['\n'] = kLineEnd;
  return kinds;
}
constexpr std::array<ByteKind, 256> kKinds = ByteKinds();

ByteKind KindOf(char c) { return kKinds[static_cast<unsigned char>(c)]; }

bool IsWhite(char c) { return KindOf(c) == kBlank || KindOf(c) == kLineEnd; }

}  // namespace

WordScanner::WordScanner(InputFile* file, int64_t line, bool lower_case, int64_t column)
    : file_(*file),
      lower_case_(lower_case),
      line_(line),
      line_begin_(static_cast<int64_t>(file->offset()) - (column - 1)) {}

absl::Status WordScanner::Error(const char* at, absl::string_view wanted) {
  const int64_t place = static_cast<int64_t>(file_.offset()) + (at - file_.begin());
  return absl::InvalidArgumentError(absl::StrFormat("%s:%d:%d: wanted %s, found the byte 0x%02x",
                                                    file_.path(), line_, place - line_begin_ + 1,
                                                    wanted, static_cast<unsigned char>(*at)));
}

absl::StatusOr<bool> WordScanner::SkipBlanks() {
  while (true) {
    const char* const begin = file_.begin();
    const char* const end = file_.end();
    const char* p = begin + next_;
    for (; p < end && IsWhite(*p); ++p) {
      if (*p != '\n') continue;
      line_ended_ = true;
      ++line_;
      line_begin_ = static_cast<int64_t>(file_.offset()) + (p - begin) + 1;
    }
    next_ = static_cast<size_t>(p - begin);
    if (p < end) return true;
    if (file_.at_end()) return false;
    file_.Consume(next_);
    next_ = 0;
    RETURN_IF_ERROR(file_.More());
  }
}

absl::StatusOr<bool> WordScanner::Next(absl::string_view* word) {
  line_ended_ = false;
  ASSIGN_OR_RETURN(const bool found, SkipBlanks());
  word_ = next_;
  if (!found) return false;
  bool ascii = true;
  while (true) {
    const char* const end = file_.end();
    const char* p = file_.begin() + next_;
    for (; p < end; ++p) {
      const ByteKind kind = KindOf(*p);
      if (kind == kLetter) continue;
      if (kind != kBeyondAscii) break;
      ascii = false;
    }
    next_ = static_cast<size_t>(p - file_.begin());
    if (p < end && KindOf(*p) == kControl) return Error(p, "text");
    if (p < end || file_.at_end()) break;
    // The word goes on behind the window.
    ConsumeToWord();
    RETURN_IF_ERROR(file_.More());
  }
  *word = absl::string_view(file_.begin() + word_, next_ - word_);
  if (const char* bad = ascii ? nullptr : FindBadUtf8(*word)) return Error(bad, "UTF-8");
  if (!lower_case_) return true;
  // Not in place: what is consumed later is hashed.
  lowered_.resize(word->size());
  std::transform(word->begin(), word->end(), lowered_.begin(), absl::ascii_tolower);
  *word = lowered_;
  return true;
}

void WordScanner::ConsumeToWord() {
  file_.Consume(word_);
  next_ -= word_;
  word_ = 0;
}

size_t FindWordBegin(absl::string_view bytes) {
  for (size_t i = 1; i < bytes.size(); ++i) {
    if (IsWhite(bytes[i - 1]) && !IsWhite(bytes[i])) return i;
  }
  return absl::string_view::npos;
}

}  // namespace coxswain::data
