#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(check_gradient) {
  const Tensor rows = RandomF32({3, 40}, 1);
  cases->push_back({.op = "CheckGradient",
                    .label = "of a variable",
                    .inputs = {rows},
                    .attrs = {{"variable", "w"}},
                    .expected = {rows}});
  cases->push_back({.op = "CheckGradient",
                    .label = "of rows",
                    .inputs = {rows, I64({3}, {7, 0, 2})},
                    .attrs = {{"variable", "t"},
                              {"strategy", "mod"},
                              {"index", 1},
                              {"count", 2},
                              {"rows", 30},
                              {"row_begin", 0}},
                    .expected = {rows}});
  cases->push_back({.op = "CheckGradient",
                    .label = "of no rows, in bf16",
                    .inputs = {BF16({0, 2}, {}), I64({0}, {})},
                    .attrs = {{"variable", "t"},
                              {"strategy", "hash"},
                              {"index", 0},
                              {"count", 1},
                              {"rows", -1},
                              {"row_begin", 0}},
                    .expected = {BF16({0, 2}, {})}});
}

}  // namespace coxswain::testing
