#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(source_ops) {
  cases->push_back({.op = "Const",
                    .label = "gives its value",
                    .inputs = {},
                    .attrs = {{"value", F32({2, 2}, {1, 2, 3, 4})}},
                    .expected = {F32({2, 2}, {1, 2, 3, 4})}});
  cases->push_back({.op = "Identity",
                    .label = "",
                    .inputs = {F32({3}, {1, -2, 3})},
                    .differentiate = {0},
                    .expected = {F32({3}, {1, -2, 3})}});
  cases->push_back({.op = "Identity",
                    .label = "of any dtype",
                    .inputs = {Bools({3}, {1, 0, 1})},
                    .expected = {Bools({3}, {1, 0, 1})}});
  cases->push_back({.op = "StopGradient",
                    .label = "",
                    .inputs = {F32({3}, {1, -2, 3})},
                    .expected = {F32({3}, {1, -2, 3})}});
  cases->push_back({.op = "ZerosLike",
                    .label = "",
                    .inputs = {F32({2, 2}, {1, 2, 3, 4})},
                    .expected = {F32({2, 2}, {0, 0, 0, 0})}});
  cases->push_back({.op = "ZerosLike",
                    .label = "of nothing",
                    .inputs = {I64({0, 4}, {})},
                    .expected = {I64({0, 4}, {})}});
  cases->push_back({.op = "OnesLike",
                    .label = "",
                    .inputs = {F32({2, 2}, {1, 2, 3, 4})},
                    .expected = {F32({2, 2}, {1, 1, 1, 1})}});
  cases->push_back({.op = "OnesLike",
                    .label = "of integers",
                    .inputs = {I32({2}, {5, 6})},
                    .expected = {I32({2}, {1, 1})}});
  cases->push_back({.op = "OnesLike",
                    .label = "of bools",
                    .inputs = {Bools({2}, {0, 1})},
                    .expected = {Bools({2}, {1, 1})}});
}

}  // namespace coxswain::testing
