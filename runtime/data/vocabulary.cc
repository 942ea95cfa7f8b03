#include "runtime/data/vocabulary.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_file.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"
#include "runtime/data/utf8.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::data {
namespace {

int64_t BucketOf(absl::string_view text, int64_t buckets) {
  return static_cast<int64_t>(Bounded(HashText(text), static_cast<uint64_t>(buckets)));
}

}  // namespace

int64_t IdOfHash(absl::string_view text, int64_t buckets) {
  return buckets > 0 ? BucketOf(text, buckets) : static_cast<int64_t>(HashText(text));
}

int32_t Interner::Intern(absl::string_view text) {
  if (last_ >= 0 && texts_[static_cast<size_t>(last_)] == text) return last_;
  const auto found = ids_.find(text);
  if (found != ids_.end()) return last_ = found->second;
  if (texts_.size() == static_cast<size_t>(std::numeric_limits<int32_t>::max())) return -1;
  last_ = static_cast<int32_t>(texts_.size());
  texts_.emplace_back(text);
  // The string object, its heap bytes if it is long, and an entry in a half-full map.
  bytes_ += static_cast<int64_t>((text.size() > 15 ? text.size() + 1 : 0) + sizeof(std::string) +
                                 2 * (sizeof(absl::string_view) + 2 * sizeof(int32_t)));
  ids_.emplace(texts_.back(), last_);
  return last_;
}

std::unique_ptr<Vocabulary> Vocabulary::OfTexts(std::vector<std::string> texts,
                                                int64_t oov_buckets) {
  std::unique_ptr<Vocabulary> vocabulary(new Vocabulary);
  vocabulary->texts_ = std::move(texts);
  vocabulary->buckets_ = oov_buckets;
  vocabulary->ids_ = TextIndex(vocabulary->texts_);
  return vocabulary;
}

std::unique_ptr<Vocabulary> Vocabulary::OfBuckets(int64_t buckets) {
  std::unique_ptr<Vocabulary> vocabulary = OfTexts({}, buckets);
  vocabulary->hashed_ = true;
  return vocabulary;
}

std::unique_ptr<Vocabulary> Vocabulary::OfNumbers(int64_t size, int64_t first) {
  std::unique_ptr<Vocabulary> vocabulary(new Vocabulary);
  vocabulary->numbers_ = size;
  vocabulary->of_numbers_ = true;
  vocabulary->first_number_ = first;
  return vocabulary;
}

std::unique_ptr<Vocabulary> Vocabulary::OfIntegers() {
  std::unique_ptr<Vocabulary> vocabulary(new Vocabulary);
  vocabulary->unbounded_ = Unbounded::kIntegers;
  return vocabulary;
}

std::unique_ptr<Vocabulary> Vocabulary::OfHashes() {
  std::unique_ptr<Vocabulary> vocabulary(new Vocabulary);
  vocabulary->unbounded_ = Unbounded::kHashes;
  return vocabulary;
}

std::optional<int64_t> Vocabulary::Find(absl::string_view text) const {
  if (unbounded_ == Unbounded::kHashes) return static_cast<int64_t>(HashText(text));
  if (unbounded_ == Unbounded::kIntegers) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
    return number;
  }
  if (numbers_ > 0) {
    int64_t number = 0;
    if (!ParseIndex(text, &number)) return std::nullopt;
    number -= first_number_;
    if (number < 0 || number >= numbers_) return std::nullopt;
    return number;
  }
  if (const int32_t id = texts_.empty() ? -1 : ids_.Find(texts_, text); id >= 0) return id;
  if (buckets_ == 0) return std::nullopt;
  return static_cast<int64_t>(texts_.size()) + BucketOf(text, buckets_);
}

size_t Vocabulary::FindAll(absl::Span<const absl::string_view> texts, const char* limit,
                           int64_t* ids) const {
  if (unbounded_ == Unbounded::kHashes) {
    for (const absl::string_view text : texts) *ids++ = static_cast<int64_t>(HashText(text));
    return texts.size();
  }
  if (unbounded_ == Unbounded::kIntegers) {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (ParseDigits(texts[i], limit, &ids[i])) continue;
      const std::optional<int64_t> id = Find(texts[i]);
      if (!id) return i;
      ids[i] = *id;
    }
    return texts.size();
  }
  FindEach(texts, ids);
  return static_cast<size_t>(std::find(ids, ids + texts.size(), -1) - ids);
}

void Vocabulary::FindEach(absl::Span<const absl::string_view> texts, int64_t* ids) const {
  if (numbers_ > 0) {
    for (const absl::string_view text : texts) *ids++ = Find(text).value_or(-1);
    return;
  }
  if (texts_.empty()) {
    for (const absl::string_view text : texts)
      *ids++ = buckets_ > 0 ? BucketOf(text, buckets_) : -1;
    return;
  }
  ids_.FindAll(texts_, texts, ids);
  for (size_t i = 0; i < texts.size() && buckets_ > 0; ++i) {
    if (ids[i] < 0) ids[i] = static_cast<int64_t>(texts_.size()) + BucketOf(texts[i], buckets_);
  }
}

absl::StatusOr<std::vector<std::string>> ReadVocabularyFile(const std::string& path,
                                                            uint64_t* content_hash) {
  ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(path));
  const bool escaped = IsSavedVocabulary(path);
  std::vector<std::string> texts;
  absl::flat_hash_map<std::string, int64_t> seen;
  absl::string_view line;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, lines->Next(&line));
    if (!found) break;
    if (const char* bad = FindBadUtf8(line)) {
      return lines->Error(line, bad, absl::StrCat("wanted UTF-8, found ", Quoted(line)));
    }
    std::string text = escaped ? UnescapeLine(line) : std::string(line);
    const auto [at, is_new] = seen.emplace(text, lines->line_number());
    if (!is_new) {
      return lines->Error(line, line.data(),
                          absl::StrCat("wanted each value once, found ", Quoted(line),
                                       ", which is in line ", at->second, " too"));
    }
    texts.push_back(std::move(text));
  }
  *content_hash = lines->content_hash();
  return texts;
}

LearnedVocabulary LearnVocabulary(const Interner& interner, absl::Span<const int64_t> counts,
                                  int64_t min_count, int64_t max_size, int64_t oov_buckets,
                                  int64_t known) {
  std::vector<int32_t> order(static_cast<size_t>(interner.size()));
  std::iota(order.begin(), order.end(), 0);
  const auto count = [&](int32_t i) { return counts[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin() + known, order.end(),
                   [&](int32_t a, int32_t b) { return count(a) > count(b); });
  const auto least = static_cast<size_t>(known);
  size_t kept = order.size();
  if (max_size > 0) kept = std::min(kept, std::max(static_cast<size_t>(max_size), least));
  while (kept > least && count(order[kept - 1]) < std::max<int64_t>(min_count, 1)) --kept;
  LearnedVocabulary learned;
  learned.ids.resize(order.size());
  std::vector<std::string> texts;
  texts.reserve(kept);
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string& text = interner.text(order[i]);
    int64_t id = -1;
    if (i < kept) {
      id = static_cast<int64_t>(i);
      texts.push_back(text);
    } else if (oov_buckets > 0) {
      id = static_cast<int64_t>(kept) + BucketOf(text, oov_buckets);
    }
    learned.ids[static_cast<size_t>(order[i])] = id;
  }
  learned.vocabulary = Vocabulary::OfTexts(std::move(texts), oov_buckets);
  return learned;
}

}  // namespace coxswain::data
