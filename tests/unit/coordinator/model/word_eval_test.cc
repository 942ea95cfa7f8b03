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
#include "coordinator/model/nearest.h"
#include "coordinator/model/row_scan.h"
#include "coordinator/model/word_eval.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

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

WordScores MustScore(const WordTests& tests, const Rows& rows) {
  const auto pool = env::NewInlinePool();
  const auto scores = ScoreWords(tests, ScanOf(rows), pool.get());
  INFO(scores.status());
  REQUIRE(scores.ok());
  return *scores;
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

TEST_CASE("a scan of a table on parameter servers gives each row once, with its id") {
  Cluster cluster = testing::MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  std::vector<float> values;
  for (int i = 0; i < 33; ++i) values.push_back(0.25f * static_cast<float>(i));  // exact in bf16
  for (const char* way : {"mod", "div", "hash"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(way, DTypeName(dtype));
      TableOptions options;
      options.rows = 11;
      options.dim = 3;
      options.dtype = dtype;
      options.sharding = testing::Must(ParseSharding(way));
      options.partitioner = FixedShards(4);
      const EmbeddingTable table =
          testing::Must(strategy.CreateTable(absl::StrCat(way, DTypeName(dtype)), options));
      testing::Must(strategy.Assign(table, Tensor::FromVector(values, Shape{11, 3}).value()));
      std::vector<int64_t> seen;
      const RowScan scan = ScanTable(&strategy, table);
      CHECK(scan.dim == 3);
      testing::Must(scan.run([&](const float* rows, const int64_t* ids, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          seen.push_back(ids[i]);
          CHECK(rows[3 * i + 1] == 0.25f * static_cast<float>(3 * ids[i] + 1));
        }
        return absl::OkStatus();
      }));
      std::sort(seen.begin(), seen.end());
      CHECK(seen == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    }
  }
}

TEST_CASE("a scan that fails, and a table that lacks a row, are errors") {
  WordTests tests;
  tests.pairs = {{0, 1, 1}, {0, 7, 2}};
  const auto pool = env::NewInlinePool();
  CHECK(absl::IsInternal(ScoreWords(tests, ScanOf({{1}, {2}}), pool.get()).status()));
  const RowScan broken{1, [](const TakeRows&) { return absl::UnavailableError("gone"); }};
  CHECK(absl::IsUnavailable(ScoreWords(tests, broken, pool.get()).status()));
}

}  // namespace
}  // namespace coxswain::model
