// Texts and their ids.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/data/text_index.h"

namespace coxswain::data {

// Gives each different text the next number from 0. Thread model: one thread.
class Interner {
 public:
  Interner() = default;
  Interner(Interner&&) = default;
  Interner& operator=(Interner&&) = default;
  // -1 when there are 2^31 - 1 texts already.
  int32_t Intern(absl::string_view text);
  int64_t size() const { return static_cast<int64_t>(texts_.size()); }
  const std::string& text(int64_t id) const { return texts_[static_cast<size_t>(id)]; }
  // Approximate memory of the texts.
  int64_t bytes() const { return bytes_; }

 private:
  std::deque<std::string> texts_;  // never moves them: the map's keys point here
  absl::flat_hash_map<absl::string_view, int32_t> ids_;
  int64_t bytes_ = 0;
  int32_t last_ = -1;  // the last result: files are often sorted by a column
};

// The id of a text by its hash: one of so many buckets; 0: the 64-bit hash itself.
int64_t IdOfHash(absl::string_view text, int64_t buckets);

// A fixed map from texts to ids 0..size()-1, of one of three kinds: listed texts, listed texts with
// buckets for all others, or hash buckets alone. Or a map to arbitrary 64-bit ids, with size 0.
// Thread model: immutable.
class Vocabulary {
 public:
  // `texts` must be different.
  static std::unique_ptr<Vocabulary> OfTexts(std::vector<std::string> texts, int64_t oov_buckets);
  static std::unique_ptr<Vocabulary> OfBuckets(int64_t buckets);
  // For ids that are already numbers in the file (libsvm): `first` is the number of id 0.
  static std::unique_ptr<Vocabulary> OfNumbers(int64_t size, int64_t first);
  // Unbounded ids: integers as they are in the file, or the 64-bit hashes of the texts.
  static std::unique_ptr<Vocabulary> OfIntegers();
  static std::unique_ptr<Vocabulary> OfHashes();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int64_t size() const { return static_cast<int64_t>(texts_.size()) + buckets_ + numbers_; }
  // The text's own id, or its bucket; nullopt for a text outside of a vocabulary without buckets.
  std::optional<int64_t> Find(absl::string_view text) const;
  // Find for each text; returns the index of the first text without an id, or the number of texts.
  // Bytes from a text up to `limit` may be read.
  size_t FindAll(absl::Span<const absl::string_view> texts, const char* limit, int64_t* ids) const;
  // The same of ids that are not unbounded, but -1 for each text without one: for whoever leaves
  // those out, and would have to ask again behind each of them.
  void FindEach(absl::Span<const absl::string_view> texts, int64_t* ids) const;
  // The texts by id; null when there are none (buckets, numbers). Larger ids are buckets.
  const std::vector<std::string>* texts() const {
    return unbounded() || of_numbers_ || hashed_ ? nullptr : &texts_;
  }
  bool unbounded() const { return unbounded_ != Unbounded::kNo; }
  bool of_numbers() const { return of_numbers_; }

 private:
  enum class Unbounded : uint8_t { kNo, kIntegers, kHashes };

  Vocabulary() = default;

  Unbounded unbounded_ = Unbounded::kNo;
  std::vector<std::string> texts_;
  TextIndex ids_;  // of these
  int64_t buckets_ = 0;
  int64_t numbers_ = 0;
  bool of_numbers_ = false, hashed_ = false;
  int64_t first_number_ = 0;
};

// Reads one text per line (LF or CRLF; gzip is decompressed); an empty line is the empty text.
// `content_hash` gets the hash of the bytes. Errors: InvalidArgument naming both lines of a text
// that occurs twice, or the line that is not UTF-8; those of InputFile.
absl::StatusOr<std::vector<std::string>> ReadVocabularyFile(const std::string& path,
                                                            uint64_t* content_hash);

// The ids that a vocabulary gives to the texts of an Interner.
struct LearnedVocabulary {
  std::unique_ptr<Vocabulary> vocabulary;
  std::vector<int64_t> ids;  // by interned number; -1: outside of the vocabulary
};

// Keeps the texts that occur at least `min_count` times, and at least once, and of these the
// `max_size` most frequent (0: all); the rest goes to `oov_buckets` buckets. Ids are in decreasing
// order of counts, then by first appearance. The first `known` texts are always kept, and their
// numbers are their ids.
LearnedVocabulary LearnVocabulary(const Interner& interner, absl::Span<const int64_t> counts,
                                  int64_t min_count, int64_t max_size, int64_t oov_buckets,
                                  int64_t known = 0);

}  // namespace coxswain::data
