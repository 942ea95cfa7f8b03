#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/ops/matrix_shards.h"
#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

// Shard 3, rows (7, 9, 11) and (8, 10, 12), as the given part of a table.
Attrs Part(const char* strategy, int64_t index, int64_t count, int64_t rows) {
  Attrs attrs = OnMatrix(3, {2, 3});
  attrs.erase("transpose_b");
  attrs["strategy"] = strategy;
  attrs["index"] = index;
  attrs["count"] = count;
  attrs["rows"] = rows;
  attrs["row_begin"] = int64_t{0};
  return attrs;
}

Attrs With(Attrs attrs, const char* name, AttrValue value) {
  attrs[name] = std::move(value);
  return attrs;
}

}  // namespace

OP_CASES(shard_candidates) {
  const auto variables = [] { return SharedMatrices(); };
  const Tensor x = F32({2, 3}, {1, 0, 0, 0, -1, 0});  // scores 7 and 8, -9 and -10
  const Tensor nothing = I64({0}, {}), none = I32({3}, {0, 0, 0});
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const auto rank = [&](const char* label, std::vector<Tensor> inputs, Attrs attrs,
                        std::vector<int64_t> wanted) {
    cases->push_back({.op = "RankShard",
                      .label = label,
                      .inputs = std::move(inputs),
                      .attrs = std::move(attrs),
                      .expected = {I64({2}, std::move(wanted))},
                      .variables = variables});
  };
  const Attrs all = Part("div", 0, 1, 2), odd = Part("mod", 1, 2, 4);
  rank("all rows", {x, I64({2}, {0, 0}), F32({2}, {7, -9}), nothing, none}, all, {1, 0});
  rank("excluded twice counts once, and the row itself never",
       {x, I64({2}, {0, 0}), F32({2}, {6, -11}), I64({3}, {1, 1, 0}), I32({3}, {0, 2, 3})}, all,
       {0, 1});
  rank("with biases",
       {x, I64({2}, {0, 0}), F32({2}, {7, -9}), nothing, none, F32({2, 1}, {0, 2.5f})}, all,
       {1, 1});
  rank("of normalised rows", {x, I64({2}, {0, 1}), F32({2}, {0.45f, -0.5698f}), nothing, none},
       With(all, "normalize", true), {1, 1});
  rank("the odd ids of a table; 3 is no candidate",
       {x, I64({2}, {1, 0}), F32({2}, {7, -9.5f}), nothing, none},
       With(odd, "candidates", int64_t{3}), {0, 1});
  rank("a row that is no candidate ranks behind all",
       {x, I64({2}, {3, 3}), F32({2}, {100, 100}), nothing, none},
       With(odd, "candidates", int64_t{3}), {1, 1});
  rank("a score that is NaN ranks behind all",
       {x, I64({2}, {0, 2}), F32({2}, {nan, nan}), I64({1}, {1}), I32({3}, {0, 0, 1})}, odd,
       {2, 1});
  rank("ids of other shards change nothing",
       {x, I64({2}, {0, 2}), F32({2}, {7.5f, -20}), I64({2}, {0, 2}), I32({3}, {0, 1, 2})}, odd,
       {1, 2});

  cases->push_back({.op = "TopKShard",
                    .label = "best first, with the table's ids",
                    .inputs = {x, nothing, none},
                    .attrs = With(odd, "k", int64_t{2}),
                    .expected = {F32({2, 2}, {8, 7, -9, -10}), I64({2, 2}, {3, 1, 1, 3})},
                    .variables = variables});
  cases->push_back({.op = "TopKShard",
                    .label = "with biases, and something excluded",
                    .inputs = {x, I64({1}, {0}), I32({3}, {0, 0, 1}), F32({2, 1}, {1, -1})},
                    .attrs = With(all, "k", int64_t{1}),
                    .expected = {F32({2, 1}, {8, -11}), I64({2, 1}, {0, 1})},
                    .variables = variables});
  cases->push_back({.op = "TopKShard",
                    .label = "by direction",
                    .inputs = {x, nothing, none},
                    .attrs = With(With(all, "directions", true), "k", int64_t{2}),
                    .expected = {F32({2, 2}, {0.4558423f, 0.4418361f, -0.5680750f, -0.5698029f}),
                                 I64({2, 2}, {1, 0, 0, 1})},
                    .variables = variables});
  cases->push_back({.op = "TopKShard",
                    .label = "fewer candidates than wanted",
                    .inputs = {x, I64({1}, {1}), I32({3}, {0, 0, 1})},
                    .attrs = With(all, "k", int64_t{3}),
                    .verify =
                        [infinity](const std::vector<Tensor>& out) {
                          const auto scores = out[0].values<float>();
                          const std::vector<float> wanted = {8,  7,         -infinity,
                                                             -9, -infinity, -infinity};
                          CHECK(std::vector<float>(scores.begin(), scores.end()) == wanted);
                          const auto ids = out[1].values<int64_t>();
                          CHECK(std::vector<int64_t>(ids.begin(), ids.end()) ==
                                std::vector<int64_t>{1, 0, -1, 0, -1, -1});
                        },
                    .variables = variables});
}

}  // namespace coxswain::testing
