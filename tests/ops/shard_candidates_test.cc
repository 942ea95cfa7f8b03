// Ranks and the best of a table's rows, shard by shard, against scores that are all computed here.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/shard_ids.h"
#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/testing/fake_shards.h"

namespace coxswain::testing {
namespace {

constexpr int64_t kExamples = 37, kRows = 10007, kDim = 9, kCandidates = kRows - 3, kShards = 2;

// A table of more rows than a block has, in two shards.
struct Table {
  explicit Table(const std::string& strategy) : rows(RandomF32({kRows, kDim}, 5)) {
    for (int64_t s = 0; s < kShards; ++s) {
      ids[s] = {strategy, s, kShards, kRows, s == 0 ? 0 : (kRows + 1) / 2};
    }
    for (int64_t s = 0; s < kShards; ++s) {
      const kernels::ShardIds& of = ids[s];
      const int64_t local = (kRows + (s == 0 ? 1 : 0)) / 2;
      std::vector<float> values, numbers;
      for (int64_t r = 0; r < local; ++r) {
        const float* row = rows.data<float>() + of.Global(r) * kDim;
        values.insert(values.end(), row, row + kDim);
        CHECK(of.Local(of.Global(r), local) == r);
        CHECK(ids[1 - s].Local(of.Global(r), kRows - local) == -1);
        numbers.push_back(Bias(of.Global(r)));
      }
      shards.values[ShardId(static_cast<uint32_t>(s))] = F32({local, kDim}, values);
      bias[s] = F32({local, 1}, numbers);
    }
  }
  static float Bias(int64_t id) { return static_cast<float>(id % 11) * 0.05f; }

  Attrs AttrsOf(int64_t s, bool normalize) const {
    return {{"shard", s},
            {"variable", "w"},
            {"dtype", DType::kF32},
            {"shape", Shape{(kRows + (s == 0 ? 1 : 0)) / 2, kDim}},
            {"strategy", ids[s].strategy},
            {"index", s},
            {"count", kShards},
            {"rows", kRows},
            {"row_begin", ids[s].row_begin},
            {"candidates", kCandidates},
            {"normalize", normalize}};
  }

  double Score(const float* x, int64_t id, bool normalize) const {
    const float* row = rows.data<float>() + id * kDim;
    double product = 0, square = 1e-12;
    for (int64_t d = 0; d < kDim; ++d) {
      product += static_cast<double>(x[d]) * row[d];
      square += static_cast<double>(row[d]) * row[d];
    }
    return (normalize ? product / std::sqrt(square) : product) + Bias(id);
  }

  Tensor rows;
  kernels::ShardIds ids[kShards];
  Tensor bias[kShards];
  FakeShards shards;
};

struct Question {
  Tensor x = RandomF32({kExamples, kDim}, 6);
  std::vector<int64_t> own, excluded;
  std::vector<int32_t> offsets = {0};
  std::vector<float> score;

  Question(const Table& table, bool normalize) {
    for (int64_t i = 0; i < kExamples; ++i) {
      own.push_back(i * 263 % kCandidates);
      score.push_back(static_cast<float>(table.Score(X(i), own.back(), normalize)));
      for (int64_t e = 0; e < i % 5 * 40; ++e) excluded.push_back((i * 31 + e * 17) % kRows);
      offsets.push_back(static_cast<int32_t>(excluded.size()));
    }
  }
  const float* X(int64_t i) const { return x.data<float>() + i * kDim; }
  std::set<int64_t> Excluded(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return {excluded.begin() + offsets[at], excluded.begin() + offsets[at + 1]};
  }
};

std::vector<Tensor> RunOn(Table* table, const std::string& op, std::vector<Tensor> inputs,
                          const Attrs& attrs) {
  graph::GraphBuilder b("f", &AllOps());
  std::vector<Output> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(b.Argument(absl::StrCat("a", i), inputs[i].dtype(), inputs[i].shape()));
  }
  const std::vector<Output> out = b.OpN(op, arguments, attrs, op == "RankShard" ? 1 : 2);
  for (size_t i = 0; i < out.size(); ++i) b.Result(absl::StrCat("r", i), out[i]);
  auto function = b.Finish();
  INFO(function.status().message());
  REQUIRE(function.ok());
  InterpretOptions options;
  options.variables = &table->shards;
  auto results = Interpret(*function, std::move(inputs), options);
  INFO(results.status().message());
  REQUIRE(results.ok());
  return *std::move(results);
}

TEST_CASE("ranks of all shards add up to the rank among all rows") {
  const std::string strategy = GENERATE("div", "mod", "hash");
  const bool normalize = GENERATE(false, true);
  CAPTURE(strategy, normalize);
  Table table(strategy);
  const Question q(table, normalize);
  std::vector<int64_t> ranks(kExamples, 0);
  for (int64_t s = 0; s < kShards; ++s) {
    const Tensor above =
        RunOn(&table, "RankShard",
              {q.x, Tensor::FromVector(q.own), Tensor::FromVector(q.score),
               Tensor::FromVector(q.excluded), Tensor::FromVector(q.offsets), table.bias[s]},
              table.AttrsOf(s, normalize))[0];
    for (int64_t i = 0; i < kExamples; ++i) ranks[i] += above.data<int64_t>()[i];
  }
  // Scores within rounding of the row's own may count or not.
  constexpr double kRounding = 1e-5;
  for (int64_t i = 0; i < kExamples; ++i) {
    const std::set<int64_t> out = q.Excluded(i);
    int64_t least = 0, most = 0;
    for (int64_t id = 0; id < kCandidates; ++id) {
      if (id == q.own[i] || out.count(id) > 0) continue;
      const double score = table.Score(q.X(i), id, normalize);
      least += score > q.score[i] + kRounding;
      most += score > q.score[i] - kRounding;
    }
    CAPTURE(i, least, most);
    CHECK(ranks[i] >= least);
    CHECK(ranks[i] <= most);
  }
}

TEST_CASE("the best of each shard are the best of its rows, without what is excluded") {
  const std::string strategy = GENERATE("div", "mod", "hash");
  Table table(strategy);
  const Question q(table, false);
  constexpr int64_t kBest = 6;
  for (int64_t s = 0; s < kShards; ++s) {
    Attrs attrs = table.AttrsOf(s, false);
    attrs["k"] = kBest;
    const std::vector<Tensor> top = RunOn(
        &table, "TopKShard",
        {q.x, Tensor::FromVector(q.excluded), Tensor::FromVector(q.offsets), table.bias[s]}, attrs);
    for (int64_t i = 0; i < kExamples; ++i) {
      const std::set<int64_t> out = q.Excluded(i);
      std::vector<double> scores;
      for (int64_t r = 0; r < table.bias[s].dim(0); ++r) {
        const int64_t id = table.ids[s].Global(r);
        if (id < kCandidates && out.count(id) == 0)
          scores.push_back(table.Score(q.X(i), id, false));
      }
      std::partial_sort(scores.begin(), scores.begin() + kBest, scores.end(), std::greater<>());
      for (int64_t k = 0; k < kBest; ++k) {
        const int64_t id = top[1].data<int64_t>()[i * kBest + k];
        CHECK(top[0].data<float>()[i * kBest + k] == Approx(scores[static_cast<size_t>(k)]));
        CHECK(out.count(id) == 0);
        CHECK(table.Score(q.X(i), id, false) == Approx(scores[static_cast<size_t>(k)]));
      }
    }
  }
}

TEST_CASE("by direction, rows without one are not among the best") {
  FakeShards shards;
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  shards.values[ShardId(0)] = F32({5, 2}, {0, 0, nan, 1, infinity, 2, -3, 0, 0.5f, 0.5f});
  Attrs attrs = {{"shard", 0},
                 {"variable", "w"},
                 {"dtype", DType::kF32},
                 {"shape", Shape{5, 2}},
                 {"strategy", "div"},
                 {"index", 0},
                 {"count", 1},
                 {"rows", 5},
                 {"row_begin", 0},
                 {"directions", true},
                 {"k", 4}};
  graph::GraphBuilder b("f", &AllOps());
  const Output x = b.Constant(F32({1, 2}, {2, 0}));
  const std::vector<Output> out =
      b.OpN("TopKShard", {x, b.Constant(I64({0}, {})), b.Constant(I32({2}, {0, 0}))}, attrs, 2);
  b.Result("scores", out[0]);
  b.Result("ids", out[1]);
  InterpretOptions options;
  options.variables = &shards;
  const auto results = Interpret(b.Finish().value(), {}, options);
  INFO(results.status().message());
  REQUIRE(results.ok());
  const auto ids = (*results)[1].values<int64_t>();
  CHECK(std::vector<int64_t>(ids.begin(), ids.end()) == std::vector<int64_t>{4, 3, -1, -1});
  CHECK((*results)[0].data<float>()[0] == Approx(std::sqrt(2.0)));
  CHECK((*results)[0].data<float>()[1] == Approx(-2.0));
}

TEST_CASE("candidates refuse ids that no row has, and hash tables") {
  const OpCase good = [] {
    OpCase c{.op = "RankShard",
             .inputs = {F32({1, 3}, {1, 2, 3}), I64({1}, {0}), F32({1}, {0}), I64({1}, {1}),
                        I32({2}, {0, 1})}};
    c.attrs = {{"shard", 3},           {"variable", "w"},   {"dtype", DType::kF32},
               {"shape", Shape{2, 3}}, {"strategy", "div"}, {"index", 0},
               {"count", 1},           {"rows", 2},         {"row_begin", 0}};
    return c;
  }();
  OpCase other = good;
  other.attrs["rows"] = int64_t{-1};
  other.attrs["strategy"] = "hash";
  CHECK_THAT(ErrorOf(other, AllOps()), Catch::Contains("hash table are not candidates"));
  other = good;
  other.attrs["candidates"] = int64_t{3};
  CHECK_THAT(ErrorOf(other, AllOps()), Catch::Contains("wanted 0 to 2, found 3"));
  other = good;
  other.inputs[0] = F32({1, 2}, {1, 2});
  CHECK_THAT(ErrorOf(other, AllOps()), Catch::Contains("columns of x and rows"));
  other = good;
  other.inputs[4] = I32({3}, {0, 1, 1});
  CHECK_THAT(ErrorOf(other, AllOps()), Catch::Contains("examples"));
}

}  // namespace
}  // namespace coxswain::testing
