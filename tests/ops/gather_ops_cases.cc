#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(gather_ops) {
  const Tensor params = F32({3, 2}, {0, 1, 10, 11, 20, 21});
  cases->push_back({.op = "Gather",
                    .label = "rows, one of them twice",
                    .inputs = {params, I64({3}, {2, 0, 2})},
                    .differentiate = {0},
                    .expected = {F32({3, 2}, {20, 21, 0, 1, 20, 21})}});
  cases->push_back({.op = "Gather",
                    .label = "indices of two dimensions, i32",
                    .inputs = {params, I32({2, 2}, {1, 1, 0, 2})},
                    .differentiate = {0},
                    .expected = {F32({2, 2, 2}, {10, 11, 10, 11, 0, 1, 20, 21})}});
  cases->push_back({.op = "Gather",
                    .label = "one index, and elements for rows",
                    .inputs = {F32({3}, {5, 6, 7}), I32({}, {1})},
                    .differentiate = {0},
                    .expected = {F32({}, {6})}});
  cases->push_back({.op = "Gather",
                    .label = "no index",
                    .inputs = {params, I64({0}, {})},
                    .differentiate = {0},
                    .expected = {F32({0, 2}, {})}});
  cases->push_back({.op = "Gather",
                    .label = "of i64",
                    .inputs = {I64({3}, {5, 6, 7}), I64({2}, {2, 0})},
                    .expected = {I64({2}, {7, 5})}});
  cases->push_back(
      {.op = "Gather",
       .label = "more rows than are asked for ahead",
       .inputs = {RandomF32({50, 33}, 1),
                  I64({20}, {0, 9, 9, 49, 3, 2, 1, 40, 41, 0, 12, 5, 48, 7, 8, 9, 3, 2, 1, 0})},
       .differentiate = {0}});
  cases->push_back({.op = "SegmentSumLike",
                    .label = "a segment of two, one of none",
                    .inputs = {F32({3, 2}, {1, 2, 3, 4, 5, 6}), I64({3}, {2, 0, 2}), params},
                    .differentiate = {0},
                    .expected = {F32({3, 2}, {3, 4, 0, 0, 6, 8})}});
  cases->push_back(
      {.op = "SegmentSumLike",
       .label = "ids of two dimensions, i32",
       .inputs = {RandomF32({2, 3, 4}, 2), I32({2, 3}, {1, 1, 0, 4, 1, 0}), RandomF32({5, 4}, 3)},
       .differentiate = {0}});
  cases->push_back({.op = "SegmentSumLike",
                    .label = "no rows at all",
                    .inputs = {F32({0, 2}, {}), I64({0}, {}), F32({0, 2}, {})},
                    .expected = {F32({0, 2}, {})}});
}

}  // namespace coxswain::testing
