// Words by number while files are read (Corpus); then their ids, learned or a model's.
#include "runtime/data/text_reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_file.h"
#include "runtime/data/learned.h"
#include "runtime/data/names.h"
#include "runtime/data/row_chain.h"
#include "runtime/data/text_rows.h"
#include "runtime/data/trained_rows.h"
#include "runtime/data/vocabulary_file.h"
#include "runtime/data/word_scanner.h"

namespace coxswain::data {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<uint32_t>::max() - 1;

// Gives words their numbers by first appearance while the files are read.
class Corpus {
 public:
  absl::Status ReadFile(const std::string& path, bool lower_case);
  // Compares the words, in their order, with those of a model. Where sentences end does not draw
  // parts.
  void Identify(const proto::DatasetSpec& spec, Text* text) const;
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
  WordScanner scanner(file.get(), 1, lower_case);
  absl::string_view word;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, scanner.Next(&word));
    if (scanner.line_ended()) EndSentence();
    if (!found) break;
    RETURN_IF_ERROR(AddWord(path, word));
  }
  EndSentence();
  if (words() == words_before) return NoWordError(path);
  content_hash_ = HashPair(content_hash_, file->content_hash());
  return absl::OkStatus();
}

void Corpus::Identify(const proto::DatasetSpec& spec, Text* text) const {
  RowChain numbers(spec.trained().rows()), words(spec.trained().rows());
  std::vector<uint64_t> hashes(static_cast<size_t>(texts_.size()));
  // Numbers go by first appearance: a word needs to be looked at once.
  int32_t known = -1;
  for (const int32_t token : tokens_) {
    const int32_t word = Text::Word(token);
    const auto at = static_cast<size_t>(word);
    numbers.AddNumber(static_cast<uint64_t>(word));
    if (word > known) {
      numbers.Add(texts_.text(known = word));
      hashes[at] = HashText(texts_.text(word));
    }
    numbers.EndRow();
    words.AddNumber(hashes[at]);
    words.EndRow();
  }
  text->trained = RowsToKeep(spec, numbers);
  text->trained.set_words_hash(words.Hash());
  text->since_training = CompareTextWithTraining(spec, words, &numbers);
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
  corpus.Identify(spec, &text);
  auto held_out = HoldOutRuns(words, spec.split().validation_fraction(), spec.seed(),
                              RowsThatKeepParts(text.since_training, spec));
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
