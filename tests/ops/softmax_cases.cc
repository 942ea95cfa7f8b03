#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(softmax) {
  const float e = std::exp(1.0f);
  cases->push_back({.op = "Softmax",
                    .label = "two rows, one of large values",
                    .inputs = {F32({2, 2}, {0, 1, 1000, 1000})},
                    .attrs = {},
                    .differentiate = {0},
                    .expected = {F32({2, 2}, {1 / (1 + e), e / (1 + e), 0.5f, 0.5f})}});
  cases->push_back({.op = "Softmax",
                    .label = "over the last axis of three",
                    .inputs = {RandomF32({2, 3, 19}, 1, -3.0f, 3.0f)},
                    .attrs = {},
                    .differentiate = {0}});
  cases->push_back({.op = "Softmax",
                    .label = "a vector",
                    .inputs = {F32({3}, {2, 2, 2})},
                    .attrs = {},
                    .expected = {F32({3}, {1 / 3.0f, 1 / 3.0f, 1 / 3.0f})}});
  cases->push_back({.op = "Softmax",
                    .label = "nothing",
                    .inputs = {F32({2, 0}, {})},
                    .attrs = {},
                    .expected = {F32({2, 0}, {})}});
  cases->push_back(
      {.op = "LogSoftmax",
       .label = "two rows, one of large values",
       .inputs = {F32({2, 2}, {0, 1, -1000, 1000})},
       .attrs = {},
       .expected = {F32({2, 2}, {-std::log(1 + e), 1 - std::log(1 + e), -2000.0f, 0.0f})}});
  cases->push_back({.op = "LogSoftmax",
                    .label = "over the last axis of three",
                    .inputs = {RandomF32({2, 3, 19}, 2, -3.0f, 3.0f)},
                    .attrs = {},
                    .differentiate = {0}});
  for (const char* op : {"SoftmaxGrad", "LogSoftmaxGrad"}) {
    cases->push_back({.op = op,
                      .label = "itself differentiated",
                      .inputs = {RandomF32({2, 3, 5}, 14), RandomF32({2, 3, 5}, 15)},
                      .attrs = {},
                      .differentiate = {0, 1}});
  }
  cases->push_back({.op = "SoftmaxGrad",
                    .label = "one row",
                    .inputs = {F32({1, 2}, {1, 3}), F32({1, 2}, {0.25f, 0.75f})},
                    .attrs = {},
                    .expected = {F32({1, 2}, {-0.375f, 0.375f})}});
  cases->push_back(
      {.op = "LogSoftmaxGrad",
       .label = "one row",
       .inputs = {F32({1, 2}, {1, 3}), F32({1, 2}, {std::log(0.25f), std::log(0.75f)})},
       .attrs = {},
       .expected = {F32({1, 2}, {0, 0})}});
}

}  // namespace coxswain::testing
