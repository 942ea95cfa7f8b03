#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(unique) {
  cases->push_back(
      {.op = "Unique",
       .label = "in order of first appearance",
       .inputs = {I64({6}, {7, -3, 7, 0, -3, int64_t{1} << 60})},
       .expected = {I64({4}, {7, -3, 0, int64_t{1} << 60}), I32({6}, {0, 1, 0, 2, 1, 3})}});
  cases->push_back({.op = "Unique",
                    .label = "i32",
                    .inputs = {I32({3}, {5, 5, 5})},
                    .expected = {I32({1}, {5}), I32({3}, {0, 0, 0})}});
  cases->push_back({.op = "Unique",
                    .label = "of nothing",
                    .inputs = {I64({0}, {})},
                    .expected = {I64({0}, {}), I32({0}, {})}});
}

}  // namespace coxswain::testing
