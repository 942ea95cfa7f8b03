// Words by number while files are read (Corpus); then their ids, learned or a model's.
#include "runtime/data/text_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_file.h"
#include "runtime/data/learned.h"
#include "runtime/data/names.h"
#include "runtime/data/trained_rows.h"
#include "runtime/data/utf8.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::data {
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

// Gives words their numbers by first appearance while the files are read.
class Corpus {
 public:
  absl::Status ReadFile(const std::string& path, bool lower_case);
  // The words in their order. Where sentences end does not draw parts.
  RowChain Chain(int64_t mark) const;
  // How often each word occurs in the runs that are trained on.
  std::vector<int64_t> Count(const std::vector<bool>& held_out) const;
  // `ids`: of the vocabulary, by the words' numbers; -1: it is left out.
  void Finish(absl::Span<const int64_t> ids, std::vector<bool> held_out, Text* text);

  int64_t words() const { return static_cast<int64_t>(tokens_.size()); }
  const Interner& texts() const { return texts_; }
  uint64_t content_hash() const { return content_hash_; }

 private:
  absl::Status AddWord(const std::string& path, absl::string_view word);
  void EndSentence() {
    if (!tokens_.empty()) tokens_.back() |= Text::kEnd;
  }

  Interner texts_;
  std::vector<int32_t> tokens_;
  uint64_t content_hash_ = 0;
};

absl::Status Corpus::AddWord(const std::string& path, absl::string_view word) {
  const int32_t id = texts_.Intern(word);
  if (id < 0 || words() >= kMaxTokens) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": wanted at most ", kMaxTokens,
                                                     " words and 2^31 - 1 different ones, ",
                                                     "found more"));
  }
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

RowChain Corpus::Chain(int64_t mark) const {
  RowChain chain(mark);
  // Numbers go by first appearance: a word needs to be looked at once.
  int32_t known = -1;
  for (const int32_t token : tokens_) {
    const int32_t word = Text::Word(token);
    chain.AddNumber(static_cast<uint64_t>(word));
    if (word > known) chain.Add(texts_.text(known = word));
    chain.EndRow();
  }
  return chain;
}

std::vector<int64_t> Corpus::Count(const std::vector<bool>& held_out) const {
  std::vector<int64_t> counts(static_cast<size_t>(texts_.size()), 0);
  for (size_t place = 0; place < tokens_.size(); ++place) {
    if (held_out[place / kTextRun]) continue;
    ++counts[static_cast<size_t>(Text::Word(tokens_[place]))];
  }
  return counts;
}

void Corpus::Finish(absl::Span<const int64_t> ids, std::vector<bool> held_out, Text* text) {
  text->words_read = words();
  text->content_hash = content_hash_;
  // In place: what is kept moves to the front.
  size_t kept = 0;
  size_t sentence = 0;  // where it begins among what is kept
  std::vector<uint32_t> begins;
  begins.reserve(held_out.size() + 1);
  for (size_t place = 0; place < tokens_.size(); ++place) {
    if (place % kTextRun == 0) begins.push_back(static_cast<uint32_t>(kept));
    const int32_t token = tokens_[place];
    const int64_t id = ids[static_cast<size_t>(Text::Word(token))];
    if (id >= 0) tokens_[kept++] = static_cast<int32_t>(id);
    if (!Text::EndsSentence(token)) continue;
    if (kept > sentence) tokens_[kept - 1] |= Text::kEnd;
    sentence = kept;
  }
  begins.push_back(static_cast<uint32_t>(kept));
  tokens_.resize(kept);
  tokens_.shrink_to_fit();
  text->tokens = std::move(tokens_);
  text->parts = TextParts(std::move(begins), std::move(held_out));
}

// The ids of the corpus' words in a model's vocabulary.
absl::StatusOr<std::vector<int64_t>> KnownIds(const proto::LearnedFeature& learned,
                                              const Interner& words, Text* text) {
  ASSIGN_OR_RETURN(text->vocabulary, LoadVocabulary(learned));
  ASSIGN_OR_RETURN(text->counts, ReadCountLines(learned.counts_file(), learned.counts_hash(),
                                                learned.vocabulary_size()));
  std::vector<int64_t> ids(static_cast<size_t>(words.size()), -1);
  for (int64_t i = 0; i < words.size(); ++i) {
    const std::optional<int64_t> id = text->vocabulary->Find(words.text(i));
    if (id) ids[static_cast<size_t>(i)] = *id;
  }
  return ids;
}

std::vector<int64_t> LearnWords(const Corpus& corpus, const std::vector<bool>& held_out,
                                const proto::TextOptions& options, Text* text) {
  const std::vector<int64_t> counts = corpus.Count(held_out);
  LearnedVocabulary learned =
      LearnVocabulary(corpus.texts(), counts, options.min_count(), options.max_size(), 0);
  text->counts.resize(static_cast<size_t>(learned.vocabulary->size()));
  for (size_t i = 0; i < counts.size(); ++i) {
    if (learned.ids[i] >= 0) text->counts[static_cast<size_t>(learned.ids[i])] = counts[i];
  }
  text->vocabulary = std::move(learned.vocabulary);
  return std::move(learned.ids);
}

}  // namespace

absl::StatusOr<Text> ReadText(const proto::DatasetSpec& spec) {
  Corpus corpus;
  for (const std::string& path : spec.paths()) {
    RETURN_IF_ERROR(corpus.ReadFile(path, spec.text().lower_case()));
  }
  const int64_t words = corpus.words(), different = corpus.texts().size();
  Text text;
  text.chain = corpus.Chain(spec.trained().rows());
  auto held_out = HoldOutRuns(words, spec.split().validation_fraction(), spec.seed(),
                              RowsThatKeepParts(CompareWithTraining(spec, text.chain), spec));
  if (!held_out.ok()) return Annotate(held_out.status(), spec.paths(0));
  std::vector<int64_t> ids;
  if (const proto::LearnedFeature* learned = FindLearned(spec, kTextFeature)) {
    ASSIGN_OR_RETURN(ids, KnownIds(*learned, corpus.texts(), &text));
  } else {
    ids = LearnWords(corpus, *held_out, spec.text(), &text);
  }
  corpus.Finish(ids, *std::move(held_out), &text);
  if (text.vocabulary->size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.paths(0), ": wanted a word that is there min_count = ", spec.text().min_count(),
        " times, found none: ", words, " words, ", different, " different ones"));
  }
  if (text.tokens.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.paths(0), ": wanted a word of the model's vocabulary, found none in ", words));
  }
  return text;
}

}  // namespace coxswain::data
