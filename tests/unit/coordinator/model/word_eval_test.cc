// Word similarity and analogies against vectors that are known.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/table_words.h"
#include "coordinator/model/cluster_words.h"
#include "coordinator/model/nearest.h"
#include "coordinator/model/row_scan.h"
#include "coordinator/model/word_eval.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

using Rows = std::vector<std::vector<float>>;

// Rows in blocks of two, the last block first: nothing may depend on the order.
RowScan ScanOf(const Rows& rows) {
  const auto run = [rows](const TakeRows& take) -> absl::Status {
    for (int64_t begin = (static_cast<int64_t>(rows.size()) - 1) / 2 * 2; begin >= 0; begin -= 2) {
      std::vector<float> values;
      std::vector<int64_t> ids;
      for (int64_t id = begin; id < std::min<int64_t>(begin + 2, rows.size()); ++id) {
        const std::vector<float>& row = rows[static_cast<size_t>(id)];
        values.insert(values.end(), row.begin(), row.end());
        ids.push_back(id);
      }
      const absl::Status taken = take(values.data(), ids.data(), static_cast<int64_t>(ids.size()));
      if (!taken.ok()) return taken;
    }
    return absl::OkStatus();
  };
  return {static_cast<int64_t>(rows[0].size()), run};
}

// Rows in this process, of which all are gone through.
WordTable Here(const Rows& rows) {
  const auto some = [rows](const std::vector<int64_t>& ids) {
    std::vector<float> values;
    for (const int64_t id : ids) {
      const std::vector<float>& row = rows.at(static_cast<size_t>(id));
      values.insert(values.end(), row.begin(), row.end());
    }
    return Tensor::FromVector<float>(
        values, Shape{static_cast<int64_t>(ids.size()), static_cast<int64_t>(rows[0].size())});
  };
  const auto nearest =
      [rows](const std::vector<NearestQuery>& queries) -> absl::StatusOr<std::vector<int64_t>> {
    const auto pool = env::NewInlinePool();
    std::vector<int64_t> ids;
    for (const auto& found :
         testing::Must(NearestRows(ScanOf(rows), queries, /*top=*/1, pool.get()))) {
      ids.push_back(found.empty() ? -1 : found[0].id);
    }
    return ids;
  };
  return {some, nearest};
}

WordScores MustScore(const WordTests& tests, const Rows& rows) {
  return testing::Must(ScoreWords(tests, Here(rows)));
}

FindWord In(std::map<std::string, int64_t> words) {
  return [words](absl::string_view word) -> std::optional<int64_t> {
    const auto it = words.find(std::string(word));
    return it == words.end() ? std::nullopt : std::optional<int64_t>(it->second);
  };
}

TEST_CASE("Spearman's correlation goes by ranks, and equal values share theirs") {
  CHECK(*SpearmanCorrelation({1, 2, 3, 4}, {10, 200, 201, 1e9}) == Approx(1));
  CHECK(*SpearmanCorrelation({1, 2, 3, 4}, {4, 3, 2, 1}) == Approx(-1));
  // Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4.
  CHECK(*SpearmanCorrelation({1, 2, 2, 3}, {1, 5, 4, 9}) == Approx(4.5 / std::sqrt(4.5 * 5)));
  CHECK_FALSE(SpearmanCorrelation({1, 1, 1}, {1, 2, 3}).has_value());
  CHECK_FALSE(SpearmanCorrelation({1}, {1}).has_value());
  CHECK_FALSE(SpearmanCorrelation({}, {}).has_value());
}

TEST_CASE("word pairs: comments, unknown words and capitals") {
  const DataFiles files;
  const std::string path = files.Write(
      "pairs.tsv",
      "# Word 1\tWord 2\tMean\nTiger\tcat\t7.35\nking\tcabbage\t0.23\nCat\tking\t1\r\n");
  WordTests tests;
  REQUIRE(ReadWordPairs(path, In({{"tiger", 0}, {"cat", 1}, {"king", 2}}), &tests).ok());
  REQUIRE(tests.pairs.size() == 2);
  CHECK(tests.pairs[0].a == 0);
  CHECK(tests.pairs[0].b == 1);
  CHECK(tests.pairs[0].score == 7.35);
  CHECK(tests.pairs[1].b == 2);
  CHECK(tests.pairs_skipped == 1);
}

TEST_CASE("word pairs and analogies that cannot be read are told by file and line") {
  const DataFiles files;
  const auto pairs = [&](const std::string& content) {
    WordTests tests;
    return std::string(ReadWordPairs(files.Write("p.tsv", content), In({}), &tests).message());
  };
  CHECK_THAT(pairs("a\tb\t1\na\tb\n"), Contains("p.tsv:2:1: wanted two words and a number"));
  CHECK_THAT(pairs("a b 1\n"), Contains("p.tsv:1:1: wanted") && Contains("a b 1"));
  CHECK_THAT(pairs("a\tb\tnan\n"), Contains("p.tsv:1:1: wanted"));
  CHECK_THAT(pairs("# nothing\n\n"),
             EndsWith("p.tsv: wanted at least one line of words, found none"));
  WordTests tests;
  CHECK_THAT(
      std::string(
          ReadAnalogies(files.Write("a.txt", ": s\na b c d\na b c\n"), In({}), &tests).message()),
      Contains("a.txt:3:1: wanted four words"));
  CHECK_THAT(std::string(ReadAnalogies(files.Path("gone"), In({}), &tests).message()),
             Contains("gone: cannot open"));
}

TEST_CASE("word similarity follows the cosines, not the lengths") {
  // Angles of 0, 30, 60 and 90 degrees, of any length.
  const auto at = [](double degrees, double length) {
    const double angle = degrees * M_PI / 180;
    return std::vector<float>{static_cast<float>(length * std::cos(angle)),
                              static_cast<float>(length * std::sin(angle))};
  };
  const Rows rows = {at(0, 1), at(30, 9), at(60, 0.1), at(90, 100), {0, 0}};
  WordTests tests;
  tests.pairs = {{0, 1, 9}, {0, 2, 5}, {0, 3, 1}};
  CHECK(*MustScore(tests, rows).similarity == Approx(1));
  tests.pairs = {{0, 1, 1}, {0, 2, 5}, {0, 3, 9}};
  CHECK(*MustScore(tests, rows).similarity == Approx(-1));
  // A word without a direction is like no other.
  tests.pairs = {{0, 1, 9}, {0, 4, 1}, {0, 2, 5}};
  CHECK(*MustScore(tests, rows).similarity == Approx(1));
  CHECK_FALSE(MustScore(tests, rows).analogies.has_value());
  tests.pairs.clear();
  CHECK_FALSE(MustScore(tests, rows).similarity.has_value());
}

TEST_CASE("analogies: the nearest to b - a + c but a, b and c themselves") {
  // man, woman, king, queen, apple
  const Rows rows = {
      {1, 0, 0.2f, 0}, {0, 1, 0.2f, 0}, {1, 0, 0.2f, 2}, {0, 1, 0.2f, 2}, {1, 1, 0, 0}};
  WordTests tests;
  tests.questions = {{0, 1, 2, 3}, {1, 0, 3, 2}};
  CHECK(*MustScore(tests, rows).analogies == 1);
  // man is to king as woman is to apple: no, to queen.
  tests.questions = {{0, 2, 1, 3}, {0, 2, 1, 4}, {0, 2, 1, 4}, {0, 1, 2, 3}};
  CHECK(*MustScore(tests, rows).analogies == 0.5);
}

// Vectors in which several words have no direction, or none that is a number.
Rows SomeRows(int64_t count, int64_t dim) {
  const Tensor values = testing::RandomTensor(Shape{count, dim}, 9);
  Rows rows;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<float>& row =
        rows.emplace_back(values.data<float>() + i * dim, values.data<float>() + (i + 1) * dim);
    for (float& v : row) v = BFloat16::FromFloat(v).ToFloat();
  }
  rows[3].assign(static_cast<size_t>(dim), 0.0f);
  rows[10][1] = std::numeric_limits<float>::quiet_NaN();
  rows[17][0] = std::numeric_limits<float>::infinity();
  return rows;
}

WordTests SomeTests(int64_t words) {
  WordTests tests;
  for (int64_t i = 0; i < 700; ++i) {
    const auto word = [&](int64_t factor) { return (i * factor + factor) % words; };
    tests.pairs.push_back({word(7), word(11), static_cast<double>(i % 13)});
    tests.questions.push_back({word(3), word(5), word(13), word(17)});
  }
  return tests;
}

TEST_CASE("words on parameter servers are scored as those that one process reads") {
  constexpr int64_t kWords = 41, kDim = 5;
  const Rows rows = SomeRows(kWords, kDim);
  std::vector<float> values;
  for (const std::vector<float>& row : rows) values.insert(values.end(), row.begin(), row.end());
  const Tensor whole = testing::Must(Tensor::FromVector<float>(values, Shape{kWords, kDim}));
  WordTests tests = SomeTests(kWords);
  const WordTable here = Here(rows);
  // Each question is answered by what is the nearest, or is wrong.
  for (size_t i = 0; i < tests.questions.size(); i += 2) {
    WordTests::Question& q = tests.questions[i];
    NearestQuery query;
    for (size_t j = 0; j < static_cast<size_t>(kDim); ++j) {
      const auto unit = [&](int64_t id) {
        const std::vector<float>& row = rows[static_cast<size_t>(id)];
        double square = 0;
        for (const float v : row) square += double{v} * v;
        return square > 0 && std::isfinite(square) ? row[j] / std::sqrt(square) : 0;
      };
      query.vector.push_back(static_cast<float>(unit(q.b) - unit(q.a) + unit(q.c)));
    }
    query.exclude = {q.a, q.b, q.c};
    q.d = testing::Must(here.nearest({query}))[0];
  }
  const WordScores wanted = testing::Must(ScoreWords(tests, here));
  REQUIRE(*wanted.analogies > 0.4);
  Cluster cluster = testing::MustStart(2, 2);
  ParameterServerStrategy strategy(cluster);
  for (const char* way : {"mod", "div", "hash"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(way, DTypeName(dtype));
      TableOptions options;
      options.rows = kWords;
      options.dim = kDim;
      options.dtype = dtype;
      options.sharding = testing::Must(ParseSharding(way));
      options.partitioner = FixedShards(3);
      const EmbeddingTable table =
          testing::Must(strategy.CreateTable(absl::StrCat(way, DTypeName(dtype)), options));
      testing::Must(strategy.Assign(table, whole));
      const WordTable words = testing::Must(WordsOnCluster(&strategy, table, [] { return false; }));
      const WordScores scores = testing::Must(ScoreWords(tests, words));
      CHECK(*scores.similarity == Approx(*wanted.similarity).margin(1e-12));
      CHECK(*scores.analogies == Approx(*wanted.analogies).margin(1e-12));
      // A query without a direction has no answer; what is sent may be any.
      const auto none = testing::Must(words.nearest({{std::vector<float>(kDim, 0.0f), {}}}));
      CHECK(none == std::vector<int64_t>{-1});
    }
  }
}

TEST_CASE("a row is looked up as it is, whatever the type in which a table's rows travel") {
  Cluster cluster = testing::MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  TableOptions options;
  options.rows = 7;
  options.dim = 2;
  options.wire_dtype = DType::kBF16;
  options.initializer = NormalInit(1, 3);
  options.partitioner = FixedShards(2);
  const EmbeddingTable table = testing::Must(strategy.CreateTable("words", options));
  const WordTable words = testing::Must(WordsOnCluster(&strategy, table, [] { return false; }));
  const Tensor all = testing::Must(strategy.Read(table));
  CHECK(testing::Same(testing::Must(words.rows({0, 1, 2, 3, 4, 5, 6})), all));
}

TEST_CASE("an evaluation of words that is stopped, or whose table fails, ends with that") {
  Cluster cluster = testing::MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  TableOptions options;
  options.rows = 9;
  options.dim = 2;
  const EmbeddingTable table = testing::Must(strategy.CreateTable("words", options));
  WordTests tests;
  tests.pairs = {{0, 1, 1}, {0, 7, 2}};
  const WordTable words = testing::Must(WordsOnCluster(&strategy, table, [] { return false; }));
  CHECK(absl::IsInvalidArgument(words.nearest({{{1.0f}, {}}}).status()));
  tests.pairs = {{0, 1, 1}, {0, 9, 2}};  // there is no row 9
  CHECK(absl::IsInvalidArgument(ScoreWords(tests, words).status()));
  const WordTable broken{[](const auto&) { return absl::UnavailableError("gone"); }, nullptr};
  CHECK(absl::IsUnavailable(ScoreWords(tests, broken).status()));
  const WordTable short_rows{[](const auto&) { return Tensor(DType::kF32, Shape{1, 2}); }, nullptr};
  CHECK(absl::IsInternal(ScoreWords(tests, short_rows).status()));
}

}  // namespace
}  // namespace coxswain::model
