#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(row_ops) {
  cases->push_back({.op = "RowDot",
                    .label = "two rows",
                    .inputs = {F32({2, 3}, {1, 2, 3, 4, 5, 6}), F32({2, 3}, {1, 0, -1, 2, 2, 2})},
                    .attrs = {},
                    .differentiate = {0, 1},
                    .expected = {F32({2}, {-2, 30})}});
  cases->push_back({.op = "RowDot",
                    .label = "longer than a vector register",
                    .inputs = {RandomF32({3, 37}, 7), RandomF32({3, 37}, 8)},
                    .attrs = {},
                    .differentiate = {0, 1}});
  cases->push_back({.op = "RowDot",
                    .label = "no columns",
                    .inputs = {F32({2, 0}, {}), F32({2, 0}, {})},
                    .attrs = {},
                    .expected = {F32({2}, {0, 0})}});
  cases->push_back({.op = "ScaleRows",
                    .label = "two rows",
                    .inputs = {F32({2, 3}, {1, 2, 3, 4, 5, 6}), F32({2}, {2, -1})},
                    .attrs = {},
                    .differentiate = {0, 1},
                    .expected = {F32({2, 3}, {2, 4, 6, -4, -5, -6})}});
  cases->push_back({.op = "ScaleRows",
                    .label = "no rows",
                    .inputs = {F32({0, 3}, {}), F32({0}, {})},
                    .attrs = {},
                    .expected = {F32({0, 3}, {})}});
}

}  // namespace coxswain::testing
