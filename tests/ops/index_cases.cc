#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

void AddGathers(std::vector<OpCase>* cases) {
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

void AddTops(std::vector<OpCase>* cases) {
  cases->push_back(
      {.op = "TopK",
       .label = "two of each row; ties go to the lower index",
       .inputs = {F32({3, 4}, {1, 4, 2, 4, 3, 3, 3, 3, -1, -2, -3, -4})},
       .attrs = {{"k", 2}},
       .expected = {F32({3, 2}, {4, 4, 3, 3, -1, -2}), I64({3, 2}, {1, 3, 0, 1, 0, 1})}});
  cases->push_back({.op = "TopK",
                    .label = "NaN and infinities",
                    .inputs = {F32({5}, {kInf, kNan, -kInf, 0, kNan})},
                    .attrs = {{"k", 4}},
                    .expected = {F32({4}, {kNan, kNan, kInf, 0}), I64({4}, {1, 4, 0, 3})}});
  cases->push_back({.op = "TopK",
                    .label = "as many as there are",
                    .inputs = {F32({1, 3}, {2, 3, 1})},
                    .attrs = {{"k", 3}},
                    .differentiate = {0},
                    .expected = {F32({1, 3}, {3, 2, 1}), I64({1, 3}, {1, 0, 2})}});
  cases->push_back({.op = "TopK",
                    .label = "differentiated",
                    .inputs = {RandomF32({2, 3, 7}, 1, -10, 10)},
                    .attrs = {{"k", 3}},
                    .differentiate = {0}});
  const Tensor x = F32({2, 3}, {1, 2, 3, 4, 5, 6}), index = I64({2, 2}, {2, 0, 1, 1});
  cases->push_back({.op = "TakeAlongLast",
                    .label = "",
                    .inputs = {x, index},
                    .differentiate = {0},
                    .expected = {F32({2, 2}, {3, 1, 5, 5})}});
  cases->push_back({.op = "PutAlongLast",
                    .label = "an index twice is a sum",
                    .inputs = {F32({2, 2}, {10, 20, 30, 40}), index, x},
                    .differentiate = {0},
                    .expected = {F32({2, 3}, {20, 0, 10, 0, 70, 0})}});
  cases->push_back({.op = "ArgMax",
                    .label = "of rows; the first of equal ones",
                    .inputs = {F32({3, 3}, {1, 3, 3, 5, 4, 5, kNan, 9, kNan})},
                    .expected = {I64({3}, {1, 0, 0})}});
  cases->push_back({.op = "ArgMax",
                    .label = "along the first dimension",
                    .inputs = {F32({3, 2}, {1, 6, 3, 5, 2, 4})},
                    .attrs = {{"axis", 0}},
                    .expected = {I64({2}, {1, 0})}});
  cases->push_back({.op = "ArgMax",
                    .label = "along the middle",
                    .inputs = {F32({2, 2, 2}, {1, 2, 3, 0, 5, 6, 4, 7})},
                    .attrs = {{"axis", 1}},
                    .expected = {I64({2, 2}, {1, 0, 0, 1})}});
}

void AddUniques(std::vector<OpCase>* cases) {
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
  cases->push_back({.op = "OneHot",
                    .label = "",
                    .inputs = {I64({3}, {2, 0, 1})},
                    .attrs = {{"depth", 3}},
                    .expected = {F32({3, 3}, {0, 0, 1, 1, 0, 0, 0, 1, 0})}});
  cases->push_back({.op = "OneHot",
                    .label = "of two dimensions, in f64",
                    .inputs = {I32({1, 2}, {1, 0})},
                    .attrs = {{"depth", 2}, {"dtype", DType::kF64}},
                    .expected = {F64({1, 2, 2}, {0, 1, 1, 0})}});
}

}  // namespace

void AddIndexCases(std::vector<OpCase>* cases) {
  AddGathers(cases);
  AddTops(cases);
  AddUniques(cases);
}

}  // namespace coxswain::testing
