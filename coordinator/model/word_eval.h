// What people know of words, held against the vectors of a model: how alike two words are, and
// which word is to a third as a second is to a first.
//
// Thread model: values of one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/model/nearest.h"
#include "coxswain/tensor.h"

namespace coxswain::model {

struct WordTests {
  struct Pair {
    int64_t a = 0, b = 0;
    double score = 0;  // of people
  };
  struct Question {
    int64_t a = 0, b = 0, c = 0, d = 0;  // a is to b as c is to d
  };
  std::vector<Pair> pairs;
  std::vector<Question> questions;
  // Those with a word that is out of the vocabulary.
  int64_t pairs_skipped = 0, questions_skipped = 0;
};

// The id of a word, or nothing.
using FindWord = std::function<std::optional<int64_t>(absl::string_view)>;

// Lines `word TAB word TAB number`, as WordSimilarity-353 has them. A line that begins with # is a
// comment. A word that is not found as it is written is looked for in lower case.
// Errors: those of reading; InvalidArgument "file:line: wanted ..., found ...", also for a file in
// which there is no pair.
absl::Status ReadWordPairs(const std::string& path, const FindWord& find, WordTests* tests);
// Lines of four words with white space between them, as Google's analogy questions. A line that
// begins with ":" names a section and is passed over. Errors: as ReadWordPairs.
absl::Status ReadAnalogies(const std::string& path, const FindWord& find, WordTests* tests);

struct WordScores {
  // Spearman's rank correlation of people's scores with cosines; nothing where fewer than two pairs
  // are known, or one side is all the same.
  std::optional<double> similarity;
  // The share of questions where, of all words but a, b and c, the one nearest to b - a + c (each
  // of length 1) by cosine is d (3CosAdd); nothing where no question is known.
  std::optional<double> analogies;
};

// A table of words' vectors, wherever it is.
struct WordTable {
  // The rows of these ids, f32 [ids, dim], in their order.
  std::function<absl::StatusOr<Tensor>(const std::vector<int64_t>& ids)> rows;
  // For each query the id of the row that NearestRows would find first, or -1.
  std::function<absl::StatusOr<std::vector<int64_t>>(const std::vector<NearestQuery>& queries)>
      nearest;
};

// Memory: the tests' own words, and the queries of some thousand questions.
// Errors: those of the table.
absl::StatusOr<WordScores> ScoreWords(const WordTests& tests, const WordTable& vectors);

// Of equal values each gets the mean of their ranks. Nothing where it is not defined.
std::optional<double> SpearmanCorrelation(absl::Span<const double> x, absl::Span<const double> y);

}  // namespace coxswain::model
