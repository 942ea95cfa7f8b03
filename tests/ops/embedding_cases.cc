#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

void AddUniqueShards(std::vector<OpCase>* cases) {
  // 10 rows on 3 shards by "div": 0-3, 4-6, 7-9.
  cases->push_back({.op = "UniqueShards",
                    .label = "div: the first shards hold one row more",
                    .inputs = {I64({2, 3}, {9, 0, 4, 9, 3, 7}), I64({2}, {6, 0})},
                    .attrs = {{"shards", 3}, {"rows", 10}, {"strategy", "div"}},
                    .expected = {I64({2}, {0, 3}), I64({2}, {0, 2}), I64({2}, {2, 0}),
                                 I32({2, 3}, {4, 0, 2, 4, 1, 5}), I32({2}, {3, 0})}});
  cases->push_back({.op = "UniqueShards",
                    .label = "mod: the remainder says which shard",
                    .inputs = {I64({6}, {9, 0, 4, 9, 3, 7})},
                    .attrs = {{"shards", 3}, {"rows", 10}, {"strategy", "mod"}},
                    .expected = {I64({3}, {3, 0, 1}), I64({2}, {1, 2}), I64({0}, {}),
                                 I32({6}, {0, 1, 3, 0, 2, 4})}});
  // Rows 9, 0, 4, 3, 7 have the places 8, 6, 1, 4, 2.
  cases->push_back({.op = "UniqueShards",
                    .label = "hash: the remainder of the row's place says which shard",
                    .inputs = {I64({6}, {9, 0, 4, 9, 3, 7})},
                    .attrs = {{"shards", 3}, {"rows", 10}, {"strategy", "hash"}},
                    .expected = {I64({1}, {2}), I64({2}, {0, 1}), I64({2}, {2, 0}),
                                 I32({6}, {3, 0, 1, 3, 2, 4})}});
  // The hash of 1 begins with 0x910a, that of 2 with 0x9758, of 3 with 0x1d0b.
  cases->push_back(
      {.op = "UniqueShards",
       .label = "hash table: the id's hash says which shard",
       .inputs = {I64({5}, {1, 3, -9000000000, 2, 3})},
       .attrs = {{"shards", 2}, {"rows", -1}, {"strategy", "hash"}},
       .expected = {I64({2}, {3, -9000000000}), I64({2}, {1, 2}), I32({5}, {2, 0, 1, 3, 0})}});
  cases->push_back({.op = "UniqueShards",
                    .label = "one shard keeps the order of first appearance",
                    .inputs = {I64({}, {5}), I64({4}, {2, 5, 1, 2})},
                    .attrs = {{"shards", 1}, {"rows", 6}, {"strategy", "div"}},
                    .expected = {I64({3}, {5, 2, 1}), I32({}, {0}), I32({4}, {1, 0, 2, 1})}});
  cases->push_back({.op = "UniqueShards",
                    .label = "no ids, and more shards than rows",
                    .inputs = {I64({0, 3}, {})},
                    .attrs = {{"shards", 2}, {"rows", 1}, {"strategy", "div"}},
                    .expected = {I64({0}, {}), I64({0}, {}), I32({0, 3}, {})}});
}

void AddBags(std::vector<OpCase>* cases) {
  const Tensor rows = F32({3, 2}, {1, 2, 10, 20, 100, 200});
  const Tensor inverse = I32({5}, {2, 0, 1, 0, 0}), offsets = I32({4}, {0, 1, 1, 5});
  const Tensor weights = F32({5}, {0.5f, 1, 2, 3, -1});
  const float r = 1 / std::sqrt(4.0f), rw = 1 / std::sqrt(15.0f);
  const struct {
    const char* combiner;
    Tensor plain, weighted;
  } wanted[] = {
      {"sum", F32({3, 2}, {100, 200, 0, 0, 13, 26}), F32({3, 2}, {50, 100, 0, 0, 23, 46})},
      {"mean", F32({3, 2}, {100, 200, 0, 0, 3.25f, 6.5f}),
       F32({3, 2}, {100, 200, 0, 0, 4.6f, 9.2f})},
      {"sqrtn", F32({3, 2}, {100, 200, 0, 0, 13 * r, 26 * r}),
       F32({3, 2}, {100, 200, 0, 0, 23 * rw, 46 * rw})}};
  for (const auto& w : wanted) {
    const Attrs attrs = {{"combiner", w.combiner}};
    const std::string name = w.combiner;
    cases->push_back({.op = "EmbeddingBag",
                      .label = name + ", one bag empty",
                      .inputs = {rows, inverse, offsets},
                      .attrs = attrs,
                      .differentiate = {0},
                      .expected = {w.plain}});
    cases->push_back({.op = "EmbeddingBag",
                      .label = name + ", weighted",
                      .inputs = {rows, inverse, offsets, weights},
                      .attrs = attrs,
                      .differentiate = {0},
                      .expected = {w.weighted}});
    cases->push_back({.op = "EmbeddingBagGrad",
                      .label = name + ", itself differentiated",
                      .inputs = {RandomF32({3, 2}, 1), rows, inverse, offsets},
                      .attrs = attrs,
                      .differentiate = {0}});
    cases->push_back({.op = "EmbeddingBagGrad",
                      .label = name + ", weighted, itself differentiated",
                      .inputs = {RandomF32({3, 2}, 2), rows, inverse, offsets, weights},
                      .attrs = attrs,
                      .differentiate = {0}});
  }
  cases->push_back(
      {.op = "EmbeddingBag",
       .label = "bags that skip entries at both ends",
       .inputs = {RandomF32({4, 37}, 3), I32({6}, {3, 0, 3, 1, 1, 2}), I32({3}, {1, 3, 5})},
       .attrs = {{"combiner", "mean"}},
       .differentiate = {0}});
  cases->push_back({.op = "EmbeddingBag",
                    .label = "no bags",
                    .inputs = {rows, I32({0}, {}), I32({1}, {0})},
                    .attrs = {{"combiner", "sum"}},
                    .expected = {F32({0, 2}, {})}});
  cases->push_back({.op = "EmbeddingBag",
                    .label = "no rows, empty bags",
                    .inputs = {F32({0, 2}, {}), I32({0}, {}), I32({3}, {0, 0, 0})},
                    .attrs = {{"combiner", "mean"}},
                    .expected = {F32({2, 2}, {0, 0, 0, 0})}});
  cases->push_back({.op = "EmbeddingBag",
                    .label = "weights that cancel give zeros, not infinity",
                    .inputs = {rows, I32({2}, {0, 1}), I32({2}, {0, 2}), F32({2}, {1, -1})},
                    .attrs = {{"combiner", "mean"}},
                    .expected = {F32({1, 2}, {0, 0})}});
  cases->push_back({.op = "EmbeddingBagGrad",
                    .label = "a row that no bag holds gets zeros",
                    .inputs = {F32({1, 2}, {1, -1}), rows, I32({3}, {0, 2, 2}), I32({2}, {0, 3})},
                    .attrs = {{"combiner", "sum"}},
                    .expected = {F32({3, 2}, {1, -1, 0, 0, 2, -2})}});
}

void AddMaskedRank(std::vector<OpCase>* cases) {
  const Tensor scores = F32({3, 5}, {5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5});
  cases->push_back({.op = "MaskedRank",
                    .label = "nothing excluded; ties do not count",
                    .inputs = {scores, I64({3}, {2, 2, 2}), I64({0}, {}), I32({4}, {0, 0, 0, 0})},
                    .attrs = {},
                    .expected = {I64({3}, {2, 0, 2})}});
  cases->push_back({.op = "MaskedRank",
                    .label = "excluded twice counts once, the true one never, lower ones not",
                    .inputs = {scores, I64({3}, {2, 2, 2}), I64({6}, {0, 0, 4, 2, 3, 4}),
                               I32({4}, {0, 3, 4, 6})},
                    .attrs = {},
                    .expected = {I64({3}, {1, 0, 0})}});
}

}  // namespace

void AddEmbeddingCases(std::vector<OpCase>* cases) {
  AddUniqueShards(cases);
  AddBags(cases);
  AddMaskedRank(cases);
}

}  // namespace coxswain::testing
