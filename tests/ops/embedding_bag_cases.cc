#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(embedding_bag) {
  const Tensor rows = F32({3, 2}, {1, 2, 10, 20, 100, 200});
  const Tensor inverse = I32({5}, {2, 0, 1, 0, 0}), offsets = I32({4}, {0, 1, 1, 5});
  const Tensor weights = F32({5}, {0.5f, 1, 2, 3, -1});
  const float r = 1 / std::sqrt(4.0f), rw = 1 / std::sqrt(15.0f);
  const struct {
    const char* combiner;
    Tensor plain, weighted;
  } wanted[] = {
      {"sum", F32({3, 2}, {100, 200, 0, 0, 13, 26}), F32({3, 2}, {50, 100, 0, 0, 23, 46})},
      {"mean", F32({3, 2}, {100, 200, 0, 0, 3.25f, 6.5f}),
       F32({3, 2}, {100, 200, 0, 0, 4.6f, 9.2f})},
      {"sqrtn", F32({3, 2}, {100, 200, 0, 0, 13 * r, 26 * r}),
       F32({3, 2}, {100, 200, 0, 0, 23 * rw, 46 * rw})}};
  for (const auto& w : wanted) {
    const Attrs attrs = {{"combiner", w.combiner}};
    const std::string name = w.combiner;
    cases->push_back({.op = "EmbeddingBag",
                      .label = name + ", one bag empty",
                      .inputs = {rows, inverse, offsets},
                      .attrs = attrs,
                      .differentiate = {0},
                      .expected = {w.plain}});
    cases->push_back({.op = "EmbeddingBag",
                      .label = name + ", weighted",
                      .inputs = {rows, inverse, offsets, weights},
                      .attrs = attrs,
                      .differentiate = {0},
                      .expected = {w.weighted}});
    cases->push_back({.op = "EmbeddingBagGrad",
                      .label = name + ", itself differentiated",
                      .inputs = {RandomF32({3, 2}, 1), rows, inverse, offsets},
                      .attrs = attrs,
                      .differentiate = {0}});
    cases->push_back({.op = "EmbeddingBagGrad",
                      .label = name + ", weighted, itself differentiated",
                      .inputs = {RandomF32({3, 2}, 2), rows, inverse, offsets, weights},
                      .attrs = attrs,
                      .differentiate = {0}});
  }
  cases->push_back(
      {.op = "EmbeddingBag",
       .label = "bags that skip entries at both ends",
       .inputs = {RandomF32({4, 37}, 3), I32({6}, {3, 0, 3, 1, 1, 2}), I32({3}, {1, 3, 5})},
       .attrs = {{"combiner", "mean"}},
       .differentiate = {0}});
  cases->push_back({.op = "EmbeddingBag",
                    .label = "no bags",
                    .inputs = {rows, I32({0}, {}), I32({1}, {0})},
                    .attrs = {{"combiner", "sum"}},
                    .expected = {F32({0, 2}, {})}});
  cases->push_back({.op = "EmbeddingBag",
                    .label = "no rows, empty bags",
                    .inputs = {F32({0, 2}, {}), I32({0}, {}), I32({3}, {0, 0, 0})},
                    .attrs = {{"combiner", "mean"}},
                    .expected = {F32({2, 2}, {0, 0, 0, 0})}});
  cases->push_back({.op = "EmbeddingBag",
                    .label = "weights that cancel give zeros, not infinity",
                    .inputs = {rows, I32({2}, {0, 1}), I32({2}, {0, 2}), F32({2}, {1, -1})},
                    .attrs = {{"combiner", "mean"}},
                    .expected = {F32({1, 2}, {0, 0})}});
  cases->push_back({.op = "EmbeddingBagGrad",
                    .label = "a row that no bag holds gets zeros",
                    .inputs = {F32({1, 2}, {1, -1}), rows, I32({3}, {0, 2, 2}), I32({2}, {0, 3})},
                    .attrs = {{"combiner", "sum"}},
                    .expected = {F32({3, 2}, {1, -1, 0, 0, 2, -2})}});
}

}  // namespace coxswain::testing
