#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

// Rows of positive numbers that sum up to 1.
Tensor Distributions(int64_t rows, int64_t classes, uint64_t seed) {
  Tensor t = RandomF32({rows, classes}, seed, 0.05f, 1.0f);
  float* p = t.mutable_data<float>();
  for (int64_t i = 0; i < rows; ++i, p += classes) {
    float sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += p[j];
    for (int64_t j = 0; j < classes; ++j) p[j] /= sum;
  }
  return t;
}

}  // namespace

OP_CASES(cross_entropy) {
  const float log2 = std::log(2.0f);
  cases->push_back({.op = "SoftmaxCrossEntropy",
                    .label = "even logits",
                    .inputs = {F32({2, 2}, {500, 500, -3, -3}), F32({2, 2}, {0, 1, 0.5f, 0.5f})},
                    .attrs = {},
                    .expected = {F32({2}, {log2, log2}), F32({2, 2}, {0.5f, -0.5f, 0, 0})}});
  cases->push_back({.op = "SoftmaxCrossEntropy",
                    .label = "distributions",
                    .inputs = {RandomF32({3, 21}, 3, -2.0f, 2.0f), Distributions(3, 21, 4)},
                    .attrs = {},
                    .differentiate = {0, 1},
                    .through = {0}});
  cases->push_back({.op = "SoftmaxCrossEntropy",
                    .label = "labels that do not sum up to 1",
                    .inputs = {RandomF32({3, 5}, 5, -2.0f, 2.0f), RandomF32({3, 5}, 6, 0.0f, 1.0f)},
                    .attrs = {},
                    .differentiate = {0, 1},
                    .through = {0}});
  cases->push_back({.op = "SparseSoftmaxCrossEntropy",
                    .label = "even logits",
                    .inputs = {F32({2, 2}, {500, 500, -3, -3}), I64({2}, {1, 0})},
                    .attrs = {},
                    .expected = {F32({2}, {log2, log2}), F32({2, 2}, {0.5f, -0.5f, -0.5f, 0.5f})}});
  cases->push_back({.op = "SparseSoftmaxCrossEntropy",
                    .label = "more classes than a vector register holds",
                    .inputs = {RandomF32({4, 35}, 7, -2.0f, 2.0f), I64({4}, {0, 34, 17, 16})},
                    .attrs = {},
                    .differentiate = {0},
                    .through = {0}});
  cases->push_back({.op = "SigmoidCrossEntropy",
                    .label = "far out it is linear, not infinite",
                    .inputs = {F32({4}, {0, 200, -200, 200}), F32({4}, {1, 0, 1, 1})},
                    .attrs = {},
                    .expected = {F32({4}, {log2, 200, 200, 0})}});
  cases->push_back({.op = "SigmoidCrossEntropy",
                    .label = "a matrix",
                    .inputs = {RandomF32({3, 7}, 8, -3.0f, 3.0f), RandomF32({3, 7}, 9, 0.0f, 1.0f)},
                    .attrs = {},
                    .differentiate = {0, 1}});
}

}  // namespace coxswain::testing
