#include "runtime/data/text_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_file.h"
#include "runtime/data/names.h"

namespace coxswain {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<uint32_t>::max() - 1;

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

// The first byte that begins no character of UTF-8 (RFC 3629), or null.
const char* FindBadUtf8(absl::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = p + text.size();
  while (p < end) {
    const unsigned lead = *p;
    const int more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    bool good = lead < 0x80 || (lead >= 0xc2 && lead <= 0xf4);
    good = good && end - p > more;
    for (int i = 1; good && i <= more; ++i) good = (p[i] & 0xc0) == 0x80;
    // Too long a form, a surrogate, or beyond U+10FFFF.
    if (good && more >= 2) {
      good = !(lead == 0xe0 && p[1] < 0xa0) && !(lead == 0xed && p[1] >= 0xa0) &&
             !(lead == 0xf0 && p[1] < 0x90) && !(lead == 0xf4 && p[1] >= 0x90);
    }
    if (!good) return reinterpret_cast<const char*>(p);
    p += more + 1;
  }
  return nullptr;
}

// Gives words their numbers by first appearance while the files are read.
class Corpus {
 public:
  absl::Status ReadFile(const std::string& path, bool lower_case);
  Text Finish(const proto::TextOptions& options);

  int64_t words() const { return static_cast<int64_t>(tokens_.size()); }
  const Interner& texts() const { return texts_; }

 private:
  absl::Status AddWord(const std::string& path, absl::string_view word);
  void EndSentence() {
    if (!tokens_.empty()) tokens_.back() |= Text::kEnd;
  }

  Interner texts_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> counts_;
  uint64_t content_hash_ = 0;
};

absl::Status Corpus::AddWord(const std::string& path, absl::string_view word) {
  const int32_t id = texts_.Intern(word);
  if (id < 0 || words() >= kMaxTokens) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": wanted at most ", kMaxTokens,
                                                     " words and 2^31 - 1 different ones, ",
                                                     "found more"));
  }
  if (static_cast<size_t>(id) == counts_.size()) counts_.push_back(0);
  ++counts_[static_cast<size_t>(id)];
  tokens_.push_back(id);
  return absl::OkStatus();
}

absl::Status Corpus::ReadFile(const std::string& path, bool lower_case) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> file, InputFile::Open(path));
  const int64_t words_before = words();
  int64_t line = 1;
  int64_t column = 1;  // of the window's first byte
  const auto error = [&](const char* at, absl::string_view wanted) {
    return absl::InvalidArgumentError(absl::StrFormat("%s:%d:%d: wanted %s, found the byte 0x%02x",
                                                      path, line, column + (at - file->begin()),
                                                      wanted, static_cast<unsigned char>(*at)));
  };
  while (true) {
    char* p = file->begin();
    char* const end = file->end();
    char* word = p;  // all before it is done
    while (p < end) {
      bool ascii = true;
      ByteKind kind = kBlank;
      for (; p < end; ++p) {
        kind = KindOf(*p);
        if (kind == kBlank || kind == kLineEnd) break;
        if (kind == kControl) return error(p, "text");
        ascii = ascii && kind == kLetter;
      }
      if (p == end && !file->at_end()) break;  // the word goes on behind the window
      const absl::string_view text(word, static_cast<size_t>(p - word));
      if (!text.empty()) {
        if (const char* bad = ascii ? nullptr : FindBadUtf8(text)) return error(bad, "UTF-8");
        if (lower_case) std::transform(word, p, word, absl::ascii_tolower);
        RETURN_IF_ERROR(AddWord(path, text));
      }
      if (p < end) ++p;
      word = p;
      if (kind == kLineEnd) {
        EndSentence();
        ++line;
        column = 1 - (p - file->begin());  // the window begins so far before the line
      }
    }
    column += word - file->begin();
    file->Consume(static_cast<size_t>(word - file->begin()));
    if (file->at_end()) break;
    RETURN_IF_ERROR(file->More());
  }
  EndSentence();
  if (words() == words_before) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": wanted at least one word, found none"));
  }
  content_hash_ = HashPair(content_hash_, file->content_hash());
  return absl::OkStatus();
}

Text Corpus::Finish(const proto::TextOptions& options) {
  LearnedVocabulary learned =
      LearnVocabulary(texts_, counts_, options.min_count(), options.max_size(), 0);
  Text text;
  text.words_read = words();
  text.content_hash = content_hash_;
  text.counts.resize(static_cast<size_t>(learned.vocabulary->size()));
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (learned.ids[i] >= 0) text.counts[static_cast<size_t>(learned.ids[i])] = counts_[i];
  }
  // In place: what is kept moves to the front.
  size_t kept = 0;
  size_t sentence = 0;  // where it begins among what is kept
  for (const int32_t token : tokens_) {
    const int64_t id = learned.ids[static_cast<size_t>(Text::Word(token))];
    if (id >= 0) tokens_[kept++] = static_cast<int32_t>(id);
    if (!Text::EndsSentence(token)) continue;
    if (kept > sentence) tokens_[kept - 1] |= Text::kEnd;
    sentence = kept;
  }
  tokens_.resize(kept);
  tokens_.shrink_to_fit();
  text.tokens = std::move(tokens_);
  text.vocabulary = std::move(learned.vocabulary);
  return text;
}

}  // namespace

absl::StatusOr<Text> ReadText(const proto::DatasetSpec& spec) {
  Corpus corpus;
  for (const std::string& path : spec.paths()) {
    RETURN_IF_ERROR(corpus.ReadFile(path, spec.text().lower_case()));
  }
  const int64_t words = corpus.words(), different = corpus.texts().size();
  Text text = corpus.Finish(spec.text());
  if (text.tokens.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.paths(0), ": wanted a word that is there min_count = ", spec.text().min_count(),
        " times, found none: ", words, " words, ", different, " different ones"));
  }
  return text;
}

}  // namespace coxswain
