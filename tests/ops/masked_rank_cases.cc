#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(masked_rank) {
  const Tensor scores = F32({3, 5}, {5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5});
  cases->push_back({.op = "MaskedRank",
                    .label = "nothing excluded; ties count as above",
                    .inputs = {scores, I64({3}, {2, 2, 2}), I64({0}, {}), I32({4}, {0, 0, 0, 0})},
                    .attrs = {},
                    .expected = {I64({3}, {2, 4, 2})}});
  cases->push_back({.op = "MaskedRank",
                    .label = "excluded twice counts once, the true one never, lower ones not",
                    .inputs = {scores, I64({3}, {2, 2, 2}), I64({6}, {0, 0, 4, 2, 3, 4}),
                               I32({4}, {0, 3, 4, 6})},
                    .attrs = {},
                    .expected = {I64({3}, {1, 4, 0})}});
  cases->push_back(
      {.op = "MaskedRank",
       .label = "columns that are no candidates; a true id among them ranks last",
       .inputs = {scores, I64({3}, {2, 3, 0}), I64({3}, {0, 3, 4}), I32({4}, {0, 1, 1, 3})},
       .attrs = {{"candidates", int64_t{3}}},
       .expected = {I64({3}, {1, 3, 2})}});
}

}  // namespace coxswain::testing
