#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(dense_input_grad) {
  cases->push_back({.op = "DenseInputGrad",
                    .label = "masked and summed; what is not above 0 lets nothing through",
                    .inputs = {F32({2, 1}, {2, -3}), F32({3, 1}, {1, 10, 100}),
                               F32({2, 3}, {1, 0, std::nanf(""), 0.5f, 2, -1})},
                    .expected = {F32({2, 3}, {2, 0, 0, -3, -30, 0}), F32({3}, {-1, -30, 0})}});
  cases->push_back({.op = "DenseInputGrad",
                    .label = "small",
                    .inputs = {RandomF32({5, 4}, 1), RandomF32({3, 4}, 2), RandomF32({5, 3}, 3)},
                    .differentiate = {0, 1}});
  cases->push_back({.op = "DenseInputGrad",
                    .label = "only the sum is used",
                    .inputs = {RandomF32({4, 2}, 4), RandomF32({3, 2}, 5), RandomF32({4, 3}, 6)},
                    .differentiate = {0, 1},
                    .through = {1}});
  cases->push_back(
      {.op = "DenseInputGrad",
       .label = "several blocks of rows, the last one short",
       .inputs = {RandomF32({150, 20}, 7), RandomF32({17, 20}, 8), RandomF32({150, 17}, 9)}});
  cases->push_back(
      {.op = "DenseInputGrad",
       .label = "several panels",
       .inputs = {RandomF32({300, 3}, 10), RandomF32({2100, 3}, 11), RandomF32({300, 2100}, 12)}});
  cases->push_back({.op = "DenseInputGrad",
                    .label = "in bf16",
                    .inputs = {RandomF32({5, 4}, 13), RandomF32({6, 4}, 14), RandomF32({5, 6}, 15)},
                    .attrs = {{"compute", "bf16"}},
                    .differentiate = {0, 1}});
  cases->push_back({.op = "DenseInputGrad",
                    .label = "no rows",
                    .inputs = {F32({0, 2}, {}), F32({3, 2}, {1, 2, 3, 4, 5, 6}), F32({0, 3}, {})},
                    .expected = {F32({0, 3}, {}), F32({3}, {0, 0, 0})}});
  cases->push_back({.op = "DenseInputGrad",
                    .label = "an empty sum is 0",
                    .inputs = {F32({2, 0}, {}), F32({1, 0}, {}), F32({2, 1}, {1, 1})},
                    .expected = {F32({2, 1}, {0, 0}), F32({1}, {0})}});
}

}  // namespace coxswain::testing
