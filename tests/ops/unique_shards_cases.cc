#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(unique_shards) {
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

}  // namespace coxswain::testing
