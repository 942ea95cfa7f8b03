#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(pair_dot) {
  const Tensor a = F32({2, 2}, {1, 2, 3, 4}), b = F32({3, 2}, {10, 0, 0, 1, 5, 5});
  const Tensor ia = I32({4}, {1, 0, 1, 1}), ib = I32({4}, {0, 2, 2, 1});
  cases->push_back({.op = "PairDot",
                    .label = "rows in several pairs and in none",
                    .inputs = {a, b, ia, ib},
                    .differentiate = {0, 1},
                    .expected = {F32({4}, {30, 15, 35, 4})}});
  cases->push_back({.op = "PairDot",
                    .label = "places of 64 bits, wide rows",
                    .inputs = {RandomF32({5, 37}, 1), RandomF32({4, 37}, 2),
                               I64({6}, {4, 0, 4, 2, 2, 3}), I64({6}, {0, 0, 3, 1, 1, 2})},
                    .differentiate = {0, 1}});
  cases->push_back(
      {.op = "PairDot",
       .label = "no pairs",
       .inputs = {F32({0, 3}, {}), F32({2, 3}, {1, 2, 3, 4, 5, 6}), I32({0}, {}), I32({0}, {})},
       .expected = {F32({0}, {})}});
  // da of PairDot with g = 1, 2, 3, 4: row 0 is in pair 1, row 1 in the others.
  cases->push_back({.op = "PairDotGrad",
                    .label = "sums over a row's pairs, itself differentiated",
                    .inputs = {F32({4}, {1, 2, 3, 4}), b, ia, ib, a},
                    .differentiate = {0, 1},
                    .expected = {F32({2, 2}, {10, 10, 25, 19})}});
  cases->push_back({.op = "PairDotGrad",
                    .label = "no pairs: zeros",
                    .inputs = {F32({0}, {}), b, I32({0}, {}), I32({0}, {}), a},
                    .expected = {F32({2, 2}, {0, 0, 0, 0})}});
}

}  // namespace coxswain::testing
