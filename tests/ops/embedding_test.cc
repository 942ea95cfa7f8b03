// Properties of the embedding ops over many random inputs, and their errors.
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <set>

#include "runtime/base/id_hash.h"
#include "runtime/base/row_mix.h"
#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Catch::Contains;

// The rows of shard `s` under TF's rule for a fixed number of shards.
int64_t FirstRow(int64_t s, int64_t shards, int64_t rows) {
  return s * (rows / shards) + std::min(s, rows % shards);
}

int64_t GlobalId(int64_t local, int64_t s, int64_t shards, int64_t rows,
                 const std::string& strategy) {
  if (strategy == "div") return FirstRow(s, shards, rows) + local;
  const int64_t place = local * shards + s;
  return strategy == "hash" ? RowMix(rows).Row(place) : place;
}

int64_t RowsOf(int64_t s, int64_t shards, int64_t rows, const std::string& strategy) {
  return strategy == "div" ? FirstRow(s + 1, shards, rows) - FirstRow(s, shards, rows)
                           : (rows - s + shards - 1) / shards;
}

Tensor RandomIds(Shape shape, int64_t rows, std::mt19937_64* random) {
  Tensor ids(DType::kI64, shape);
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    // Half of them from few, so that ids repeat.
    const int64_t bound = (*random)() % 2 == 0 ? rows : std::min<int64_t>(rows, 7);
    ids.mutable_data<int64_t>()[i] = static_cast<int64_t>((*random)() % bound);
  }
  return ids;
}

// Whether the outputs lead every id back to itself, name each row once, and only rows that were
// asked for.
std::string CheckRoundTrip(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                           int64_t shards, int64_t rows, const std::string& strategy) {
  std::vector<int64_t> all;  // the global id of every row, as the rows of all shards stand
  for (int64_t s = 0; s < shards; ++s) {
    for (const int64_t local : outputs[s].values<int64_t>()) {
      if (local < 0 || local >= RowsOf(s, shards, rows, strategy)) return "outside its shard";
      all.push_back(GlobalId(local, s, shards, rows, strategy));
    }
  }
  std::set<int64_t> wanted;
  for (size_t j = 0; j < inputs.size(); ++j) {
    const Tensor& inverse = outputs[shards + j];
    if (inverse.shape() != inputs[j].shape()) return "inverse of another shape";
    for (int64_t i = 0; i < inverse.num_elements(); ++i) {
      const int64_t id = inputs[j].data<int64_t>()[i];
      const int32_t at = inverse.data<int32_t>()[i];
      if (at < 0 || at >= static_cast<int64_t>(all.size()) || all[at] != id) return "another id";
      wanted.insert(id);
    }
  }
  if (std::set<int64_t>(all.begin(), all.end()) != wanted) return "other rows than asked for";
  return all.size() == wanted.size() ? "" : "a row twice";
}

TEST_CASE("UniqueShards leads every id to its row, for any strategy and number of shards") {
  std::mt19937_64 random(7);
  for (const std::string strategy : {"div", "mod", "hash"}) {
    for (int64_t shards = 1; shards <= 5; ++shards) {
      for (const int64_t rows : {1, 3, 4, 100, 1003}) {
        for (const int64_t n : {0, 1, 17, 500}) {
          CAPTURE(strategy, shards, rows, n);
          const OpCase op_case{
              .op = "UniqueShards",
              .label = "",
              .inputs = {RandomIds({n}, rows, &random), RandomIds({n, 2}, rows, &random),
                         RandomIds({}, rows, &random)},
              .attrs = {{"shards", shards}, {"rows", rows}, {"strategy", strategy}}};
          auto outputs = RunOp(op_case, AllOps());
          REQUIRE(outputs.ok());
          CHECK(CheckRoundTrip(op_case.inputs, *outputs, shards, rows, strategy) == "");
        }
      }
    }
  }
}

TEST_CASE("UniqueShards stays right when large and small batches take turns") {
  std::mt19937_64 random(8);
  const int64_t rows = int64_t{1} << 40;
  for (const int64_t n : {10, 700000, 10, 40000, 3}) {
    const OpCase op_case{.op = "UniqueShards",
                         .label = "",
                         .inputs = {RandomIds({n}, rows, &random)},
                         .attrs = {{"shards", 3}, {"rows", rows}, {"strategy", "div"}}};
    auto outputs = RunOp(op_case, AllOps());
    REQUIRE(outputs.ok());
    CHECK(CheckRoundTrip(op_case.inputs, *outputs, 3, rows, "div") == "");
  }
}

TEST_CASE("UniqueShards sends any 64-bit id to the shard of its hash, as itself") {
  std::mt19937_64 random(9);
  for (int64_t shards = 1; shards <= 5; ++shards) {
    Tensor ids(DType::kI64, Shape{2000});
    for (int64_t i = 0; i < 2000; ++i) {
      ids.mutable_data<int64_t>()[i] = static_cast<int64_t>(random() >> (random() % 60));
    }
    ids.mutable_data<int64_t>()[0] = std::numeric_limits<int64_t>::min();
    ids.mutable_data<int64_t>()[1] = -1;
    const OpCase op_case{.op = "UniqueShards",
                         .label = "",
                         .inputs = {ids},
                         .attrs = {{"shards", shards}, {"rows", -1}, {"strategy", "hash"}}};
    auto outputs = RunOp(op_case, AllOps());
    REQUIRE(outputs.ok());
    std::vector<int64_t> all;
    for (int64_t s = 0; s < shards; ++s) {
      const auto of_shard = (*outputs)[s].values<int64_t>();
      CHECK(of_shard.size() > 2000 / 2 / static_cast<size_t>(shards) / 2);
      for (const int64_t id : of_shard) CHECK(HashShard(id, shards) == s);
      all.insert(all.end(), of_shard.begin(), of_shard.end());
    }
    CHECK(std::set<int64_t>(all.begin(), all.end()).size() == all.size());
    for (int64_t i = 0; i < 2000; ++i) {
      CHECK(all[static_cast<size_t>((*outputs)[shards].data<int32_t>()[i])] ==
            ids.data<int64_t>()[i]);
    }
  }
}

TEST_CASE("UniqueShards names an id that has no row") {
  for (const int64_t id : {int64_t{-1}, int64_t{10}, std::numeric_limits<int64_t>::min()}) {
    const OpCase wrong{
        .op = "UniqueShards",
        .label = "",
        .inputs = {I64({1}, {0}), I64({3}, {1, id, 2})},
        .attrs = {{"shards", 2}, {"rows", 10}, {"strategy", id < 0 ? "mod" : "hash"}}};
    CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("input 1") && Contains("position 1") &&
                                             Contains("id " + std::to_string(id)) &&
                                             Contains("10 rows"));
  }
  OpCase wrong{.op = "UniqueShards",
               .label = "",
               .inputs = {I64({1}, {0})},
               .attrs = {{"shards", 0}, {"rows", 10}, {"strategy", "mod"}}};
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("'shards'") && Contains("found 0"));
  wrong.attrs = {{"shards", 1}, {"rows", 10}, {"strategy", "range"}};
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("'div', 'mod' or 'hash'") && Contains("'range'"));
  wrong.attrs = {{"shards", 1}, {"strategy", "mod"}};
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("'rows' is missing"));
}

TEST_CASE("EmbeddingBag refuses offsets and rows that lead outside") {
  OpCase wrong{.op = "EmbeddingBag",
               .label = "",
               .inputs = {RandomF32({3, 2}, 1), I32({2}, {0, 3}), I32({2}, {0, 2})},
               .attrs = {{"combiner", "sum"}}};
  CHECK_THAT(ErrorOf(wrong, AllOps()),
             Contains("entry 1") && Contains("< 3") && Contains("found 3"));
  wrong.inputs[1] = I32({2}, {0, -1});
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("entry 1") && Contains("found -1"));
  wrong.inputs[1] = I32({2}, {0, 1});
  wrong.inputs[2] = I32({2}, {0, 3});
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("offset 1") && Contains("found 3"));
  wrong.inputs[2] = I32({3}, {0, 2, 1});
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("offset 2") && Contains("found 1"));
  wrong.inputs[2] = I32({2}, {-1, 1});
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("offset 0") && Contains("found -1"));
  wrong.inputs[2] = I32({0}, {});
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("one offset more"));
  wrong.attrs = {{"combiner", "max"}};
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("'sqrtn'") && Contains("'max'"));
}

TEST_CASE("MaskedRank agrees with counting one by one") {
  std::mt19937_64 random(9);
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(random() % 5);
    const int64_t candidates = 1 + static_cast<int64_t>(random() % 90);
    Tensor scores(DType::kF32, Shape{rows, candidates});
    for (int64_t i = 0; i < scores.num_elements(); ++i) {
      const int value = static_cast<int>(random() % 12);  // ties are common; a NaN now and then
      scores.mutable_data<float>()[i] =
          value == 11 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value);
    }
    const Tensor truth = RandomIds({rows}, candidates, &random);
    std::vector<int64_t> excluded;
    std::vector<int32_t> offsets = {0};
    std::vector<int64_t> wanted;
    for (int64_t i = 0; i < rows; ++i) {
      for (int e = static_cast<int>(random() % 20); e > 0; --e) {
        excluded.push_back(static_cast<int64_t>(random() % candidates));
      }
      const std::set<int64_t> out(excluded.begin() + offsets.back(), excluded.end());
      offsets.push_back(static_cast<int32_t>(excluded.size()));
      const float* row = scores.data<float>() + i * candidates;
      const int64_t t = truth.data<int64_t>()[i];
      int64_t rank = 0;
      for (int64_t j = 0; j < candidates; ++j) {
        if (j != t && !out.contains(j) && !(row[j] < row[t])) ++rank;
      }
      wanted.push_back(rank);
    }
    const Shape count{static_cast<int64_t>(excluded.size())};
    auto outputs = RunOp({.op = "MaskedRank",
                          .label = "",
                          .inputs = {scores, truth, I64(count, excluded), I32({rows + 1}, offsets)},
                          .attrs = {}},
                         AllOps());
    REQUIRE(outputs.ok());
    const auto ranks = (*outputs)[0].values<int64_t>();
    CHECK(std::vector<int64_t>(ranks.begin(), ranks.end()) == wanted);
  }
}

TEST_CASE("a true score that is NaN ranks last") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto outputs = RunOp(
      {.op = "MaskedRank",
       .label = "",
       .inputs = {F32({1, 4}, {1, nan, 2, 3}), I64({1}, {1}), I64({1}, {3}), I32({2}, {0, 1})},
       .attrs = {}},
      AllOps());
  REQUIRE(outputs.ok());
  CHECK((*outputs)[0].data<int64_t>()[0] == 2);
}

TEST_CASE("MaskedRank names ids outside the candidates") {
  OpCase wrong{.op = "MaskedRank",
               .label = "",
               .inputs = {RandomF32({1, 4}, 1), I64({1}, {4}), I64({1}, {3}), I32({2}, {0, 1})},
               .attrs = {}};
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("true id 4") && Contains("4 candidates"));
  wrong.inputs[1] = I64({1}, {0});
  wrong.inputs[2] = I64({1}, {-2});
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("excluded id -2") && Contains("position 0"));
  wrong.inputs[2] = I64({1}, {2});
  wrong.inputs[3] = I32({2}, {0, 2});
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("offset 1") && Contains("found 2"));
}

}  // namespace
}  // namespace coxswain::testing
