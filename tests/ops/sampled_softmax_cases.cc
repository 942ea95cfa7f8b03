#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(sampled_softmax) {
  const char* const op = "SampledSoftmaxCrossEntropy";
  // Row 0: 1 / (1 + 3) of the mass is the true one's.
  cases->push_back(
      {.op = op,
       .label = "even logits",
       .inputs = {F32({2}, {700, 0}), F32({2, 3}, {700, 700, 700, 0, 0, 0})},
       .attrs = {},
       .expected = {F32({2}, {std::log(4.0f), std::log(4.0f)}), F32({2}, {-0.75f, -0.75f}),
                    F32({2, 3}, {.25f, .25f, .25f, .25f, .25f, .25f})}});
  cases->push_back(
      {.op = op,
       .label = "an offset weighs the negatives",
       .inputs = {F32({1}, {0}), F32({1, 2}, {0, 0})},
       .attrs = {{"negative_offset", std::log(2.0)}},
       .expected = {F32({1}, {std::log(5.0f)}), F32({1}, {-0.8f}), F32({1, 2}, {0.4f, 0.4f})}});
  cases->push_back(
      {.op = op,
       .label = "accidental hits are left out, each in its own row",
       .inputs = {F32({3}, {0, 0, 0}), F32({3, 4}, {0, 0, 0, 0, 0, 50, 0, 50, 0, 0, 0, 0}),
                  I64({3}, {5, 9, 7}), I64({4}, {5, 9, 3, 9})},
       .attrs = {},
       .expected = {
           F32({3}, {std::log(4.0f), std::log(3.0f), std::log(5.0f)}),
           F32({3}, {-0.75f, -2 / 3.0f, -0.8f}),
           F32({3, 4}, {0, .25f, .25f, .25f, 1 / 3.0f, 0, 1 / 3.0f, 0, .2f, .2f, .2f, .2f})}});
  cases->push_back({.op = op,
                    .label = "nothing but hits: no loss",
                    .inputs = {F32({1}, {3}), F32({1, 2}, {1, 2}), I64({1}, {4}), I64({2}, {4, 4})},
                    .attrs = {},
                    .expected = {F32({1}, {0}), F32({1}, {0}), F32({1, 2}, {0, 0})}});
  cases->push_back({.op = op,
                    .label = "without negatives there is no loss",
                    .inputs = {F32({2}, {3, -3}), F32({2, 0}, {})},
                    .attrs = {},
                    .expected = {F32({2}, {0, 0}), F32({2}, {0, 0}), F32({2, 0}, {})}});
  cases->push_back(
      {.op = op,
       .label = "the gradient of both logits",
       .inputs = {RandomF32({5}, 10, -2.0f, 2.0f), RandomF32({5, 33}, 11, -2.0f, 2.0f)},
       .attrs = {{"negative_offset", 1.5}},
       .differentiate = {0, 1},
       .through = {0}});
  cases->push_back({.op = op,
                    .label = "the gradient with hits",
                    .inputs = {RandomF32({3}, 12, -2.0f, 2.0f), RandomF32({3, 4}, 13, -2.0f, 2.0f),
                               I64({3}, {5, 9, 7}), I64({4}, {5, 9, 3, 9})},
                    .attrs = {{"negative_offset", -0.5}},
                    .differentiate = {0, 1},
                    .through = {0}});
}

}  // namespace coxswain::testing
