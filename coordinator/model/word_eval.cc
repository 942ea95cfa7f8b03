// Reading the files of words, looking up the vectors that they name, and what is measured of them.
#include "coordinator/model/word_eval.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/data/input_file.h"
#include "runtime/data/names.h"

namespace coxswain::model {
namespace {

std::optional<int64_t> FindAnyCase(const FindWord& find, absl::string_view word) {
  const std::optional<int64_t> id = find(word);
  return id ? id : find(absl::AsciiStrToLower(word));
}

// Calls `read` with each line that is not empty and does not begin with `mark`; it returns what was
// wanted of a line that it cannot read, or "".
absl::Status ReadLines(const std::string& path, char mark,
                       const std::function<std::string(absl::string_view)>& read) {
  ASSIGN_OR_RETURN(std::unique_ptr<data::LineReader> lines, data::LineReader::Open(path));
  absl::string_view line;
  int64_t taken = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, lines->Next(&line));
    if (!found) break;
    if (absl::StripAsciiWhitespace(line).empty() || line[0] == mark) continue;
    const std::string wanted = read(line);
    if (!wanted.empty()) {
      return lines->Error(line, line.data(), absl::StrCat(wanted, ", found ", data::Quoted(line)));
    }
    ++taken;
  }
  if (taken > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": wanted at least one line of words, found none"));
}

// Ranks from 1; of equal values, the mean of theirs.
std::vector<double> Ranks(absl::Span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = 0.5 * static_cast<double>(begin + 1 + end);
    }
    begin = end;
  }
  return ranks;
}

constexpr size_t kRowsAtOnce = 8192;
constexpr size_t kQuestionsAtOnce = 4096;

// The vectors of some words, of length 1; zeros for one that has no direction.
class WordVectors {
 public:
  void Want(int64_t id) { vectors_.try_emplace(id); }
  absl::Status Read(const WordTable& table);
  const std::vector<float>& operator[](int64_t id) const { return vectors_.at(id); }

 private:
  absl::Status Take(const std::vector<int64_t>& ids, const Tensor& rows);

  absl::flat_hash_map<int64_t, std::vector<float>> vectors_;
};

absl::Status WordVectors::Take(const std::vector<int64_t>& ids, const Tensor& rows) {
  if (rows.dtype() != DType::kF32 || rows.rank() != 2 ||
      rows.dim(0) != static_cast<int64_t>(ids.size())) {
    return absl::InternalError(absl::StrCat("wanted the vectors of ", ids.size(), " words, found ",
                                            rows.shape().ToString()));
  }
  const int64_t dim = rows.dim(1);
  for (size_t i = 0; i < ids.size(); ++i) {
    const float* row = rows.data<float>() + static_cast<int64_t>(i) * dim;
    double squares = 0;
    for (int64_t j = 0; j < dim; ++j) squares += double{row[j]} * row[j];
    const double scale = squares > 0 && std::isfinite(squares) ? 1 / std::sqrt(squares) : 0;
    std::vector<float>& vector = vectors_.at(ids[i]);
    vector.assign(static_cast<size_t>(dim), 0.0f);
    if (scale == 0) continue;
    for (int64_t j = 0; j < dim; ++j) {
      vector[static_cast<size_t>(j)] = static_cast<float>(row[j] * scale);
    }
  }
  return absl::OkStatus();
}

absl::Status WordVectors::Read(const WordTable& table) {
  std::vector<int64_t> all, some;
  for (const auto& [id, vector] : vectors_) all.push_back(id);
  std::sort(all.begin(), all.end());
  for (size_t begin = 0; begin < all.size(); begin += kRowsAtOnce) {
    some.assign(
        all.begin() + static_cast<std::ptrdiff_t>(begin),
        all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), begin + kRowsAtOnce)));
    ASSIGN_OR_RETURN(const Tensor rows, table.rows(some));
    RETURN_IF_ERROR(Take(some, rows));
  }
  return absl::OkStatus();
}

std::optional<double> Similarity(const WordTests& tests, const WordVectors& vectors) {
  std::vector<double> people, cosines;
  for (const WordTests::Pair& pair : tests.pairs) {
    const std::vector<float>&a = vectors[pair.a], &b = vectors[pair.b];
    people.push_back(pair.score);
    cosines.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0));
  }
  return SpearmanCorrelation(people, cosines);
}

}  // namespace

absl::Status ReadWordPairs(const std::string& path, const FindWord& find, WordTests* tests) {
  return ReadLines(path, '#', [&](absl::string_view line) -> std::string {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
    double score = 0;
    if (fields.size() != 3 || !absl::SimpleAtod(fields[2], &score) || !std::isfinite(score)) {
      return "wanted two words and a number with tabs between them";
    }
    const auto a = FindAnyCase(find, fields[0]), b = FindAnyCase(find, fields[1]);
    if (a && b) {
      tests->pairs.push_back({*a, *b, score});
    } else {
      ++tests->pairs_skipped;
    }
    return "";
  });
}

absl::Status ReadAnalogies(const std::string& path, const FindWord& find, WordTests* tests) {
  return ReadLines(path, ':', [&](absl::string_view line) -> std::string {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 4) return "wanted four words";
    int64_t ids[4];
    for (size_t i = 0; i < 4; ++i) {
      const auto id = FindAnyCase(find, words[i]);
      if (!id) {
        ++tests->questions_skipped;
        return "";
      }
      ids[i] = *id;
    }
    tests->questions.push_back({ids[0], ids[1], ids[2], ids[3]});
    return "";
  });
}

std::optional<double> SpearmanCorrelation(absl::Span<const double> x, absl::Span<const double> y) {
  const std::vector<double> rx = Ranks(x), ry = Ranks(y);
  const double mean = 0.5 * static_cast<double>(x.size() + 1);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < rx.size(); ++i) {
    xy += (rx[i] - mean) * (ry[i] - mean);
    xx += (rx[i] - mean) * (rx[i] - mean);
    yy += (ry[i] - mean) * (ry[i] - mean);
  }
  if (!(xx > 0 && yy > 0)) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

absl::StatusOr<WordScores> ScoreWords(const WordTests& tests, const WordTable& vectors) {
  WordVectors known;
  for (const WordTests::Pair& pair : tests.pairs) {
    known.Want(pair.a);
    known.Want(pair.b);
  }
  for (const WordTests::Question& q : tests.questions) {
    for (const int64_t id : {q.a, q.b, q.c}) known.Want(id);
  }
  RETURN_IF_ERROR(known.Read(vectors));
  WordScores scores;
  scores.similarity = Similarity(tests, known);
  if (tests.questions.empty()) return scores;
  int64_t right = 0;
  for (size_t begin = 0; begin < tests.questions.size(); begin += kQuestionsAtOnce) {
    const size_t end = std::min(tests.questions.size(), begin + kQuestionsAtOnce);
    std::vector<NearestQuery> queries;
    for (size_t i = begin; i < end; ++i) {
      const WordTests::Question& q = tests.questions[i];
      const std::vector<float>&a = known[q.a], &b = known[q.b], &c = known[q.c];
      NearestQuery& query = queries.emplace_back();
      for (size_t j = 0; j < a.size(); ++j) query.vector.push_back(b[j] - a[j] + c[j]);
      query.exclude = {q.a, q.b, q.c};
    }
    ASSIGN_OR_RETURN(const std::vector<int64_t> answers, vectors.nearest(queries));
    for (size_t i = begin; i < end; ++i) right += answers.at(i - begin) == tests.questions[i].d;
  }
  scores.analogies = static_cast<double>(right) / static_cast<double>(tests.questions.size());
  return scores;
}

}  // namespace coxswain::model
