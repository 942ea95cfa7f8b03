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

void AddSoftmax(std::vector<OpCase>* cases) {
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

void AddCrossEntropies(std::vector<OpCase>* cases) {
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

void AddSampled(std::vector<OpCase>* cases) {
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

}  // namespace

void AddLossCases(std::vector<OpCase>* cases) {
  AddSoftmax(cases);
  AddCrossEntropies(cases);
  AddSampled(cases);
}

}  // namespace coxswain::testing
