#include <cmath>
#include <vector>

#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(negative_sampling) {
  const float l = std::log(2.0f);
  cases->push_back({.op = "NegativeSamplingLoss",
                    .label = "small, large and infinite logits",
                    .inputs = {F32({3, 3}, {0, 0, 0, 100, -100, 0, -500, -INFINITY, -90})},
                    .expected = {F32({3}, {3 * l, 100 + l, 0}),
                                 F32({3, 3}, {.5f, .5f, .5f, 1, 0, .5f, 0, 0, 0})}});
  cases->push_back({.op = "NegativeSamplingLoss",
                    .label = "the gradient, over more columns than one logarithm takes",
                    .inputs = {RandomF32({4, 150}, 12, -6.0f, 6.0f)},
                    .differentiate = {0},
                    .through = {0}});
  cases->push_back({.op = "NegativeSamplingLoss",
                    .label = "the largest product",
                    .inputs = {F32({1, 64}, std::vector<float>(64, 0.0f))},
                    .expected = {F32({1}, {64 * l}), F32({1, 64}, std::vector<float>(64, 0.5f))}});
  cases->push_back({.op = "NegativeSamplingLoss",
                    .label = "no columns: no loss",
                    .inputs = {F32({2, 0}, {})},
                    .expected = {F32({2}, {0, 0}), F32({2, 0}, {})}});
}

}  // namespace coxswain::testing
