#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(pairwise_dots) {
  const Tensor a = F32({2, 2}, {1, 2, 3, 4}), b = F32({2, 2}, {5, 6, 7, 8}),
               c = F32({2, 2}, {1, 0, 0, 1});
  cases->push_back({.op = "PairwiseDots",
                    .label = "three vectors: the lower triangle by rows",
                    .inputs = {a, b, c},
                    .attrs = {},
                    .differentiate = {0, 1, 2},
                    .expected = {F32({2, 3}, {17, 1, 5, 53, 4, 8})}});
  cases->push_back({.op = "PairwiseDots",
                    .label = "the first vector stands before its products",
                    .inputs = {a, b, c},
                    .attrs = {{"with_first", true}},
                    .differentiate = {0, 1, 2},
                    .expected = {F32({2, 5}, {1, 2, 17, 1, 5, 3, 4, 53, 4, 8})}});
  cases->push_back({.op = "PairwiseDots",
                    .label = "one vector has no pairs",
                    .inputs = {a},
                    .attrs = {{"with_first", true}},
                    .differentiate = {0},
                    .expected = {a}});
  cases->push_back({.op = "PairwiseDots",
                    .label = "no examples",
                    .inputs = {F32({0, 3}, {}), F32({0, 3}, {})},
                    .attrs = {},
                    .expected = {F32({0, 1}, {})}});
  cases->push_back({.op = "PairwiseDots",
                    .label = "vectors of no width",
                    .inputs = {F32({2, 0}, {}), F32({2, 0}, {})},
                    .attrs = {},
                    .expected = {F32({2, 1}, {0, 0})}});
  // More vectors than a tile has rows, wider than its registers, and neither a multiple of them.
  for (const int64_t width : {5, 71}) {
    OpCase many{.op = "PairwiseDots", .label = "19 vectors of width " + std::to_string(width)};
    for (int i = 0; i < 19; ++i) {
      many.inputs.push_back(RandomF32({2, width}, static_cast<uint64_t>(i + 1)));
      many.differentiate.push_back(i);
    }
    many.attrs = {{"with_first", width == 5}};
    cases->push_back(many);
  }
  cases->push_back({.op = "PairwiseDotsGrad",
                    .label = "each vector gets the others, weighted",
                    .inputs = {F32({2, 3}, {1, 10, 100, 0, 0, 1}), a, b, c},
                    .attrs = {},
                    .differentiate = {0, 1, 2, 3},
                    .expected = {F32({2, 2}, {15, 6, 0, 0}), F32({2, 2}, {101, 2, 0, 1}),
                                 F32({2, 2}, {510, 620, 7, 8})}});
  cases->push_back({.op = "PairwiseDotsGrad",
                    .label = "the first vector also gets the gradient of itself",
                    .inputs = {F32({1, 3}, {7, 8, 2}), F32({1, 2}, {1, 2}), F32({1, 2}, {3, 4})},
                    .attrs = {{"with_first", true}},
                    .differentiate = {0, 1, 2},
                    .expected = {F32({1, 2}, {13, 16}), F32({1, 2}, {2, 4})}});
}

}  // namespace coxswain::testing
