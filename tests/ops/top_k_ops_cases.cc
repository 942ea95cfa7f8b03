#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

}  // namespace

OP_CASES(top_k_ops) {
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
}

}  // namespace coxswain::testing
