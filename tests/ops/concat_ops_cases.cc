#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Ints = std::vector<int64_t>;

}  // namespace

OP_CASES(concat_ops) {
  const Tensor a = F32({2, 2}, {1, 2, 3, 4}), b = F32({2, 1}, {5, 6});
  cases->push_back({.op = "Concat",
                    .label = "columns",
                    .inputs = {a, b},
                    .attrs = {{"axis", -1}},
                    .differentiate = {0, 1},
                    .expected = {F32({2, 3}, {1, 2, 5, 3, 4, 6})}});
  cases->push_back({.op = "Concat",
                    .label = "rows, one part empty",
                    .inputs = {a, F32({0, 2}, {}), F32({1, 2}, {7, 8})},
                    .attrs = {{"axis", 0}},
                    .differentiate = {0, 1, 2},
                    .expected = {F32({3, 2}, {1, 2, 3, 4, 7, 8})}});
  cases->push_back({.op = "Concat",
                    .label = "the middle of three dimensions",
                    .inputs = {RandomF32({2, 1, 3}, 1), RandomF32({2, 4, 3}, 2)},
                    .attrs = {{"axis", 1}},
                    .differentiate = {0, 1}});
  cases->push_back({.op = "Concat",
                    .label = "ids",
                    .inputs = {I64({2}, {1, 2}), I64({1}, {3})},
                    .attrs = {{"axis", 0}},
                    .expected = {I64({3}, {1, 2, 3})}});
  cases->push_back({.op = "ConcatGrad",
                    .label = "columns",
                    .inputs = {F32({2, 3}, {1, 2, 5, 3, 4, 6}), a, b},
                    .attrs = {{"axis", 1}},
                    .differentiate = {0},
                    .expected = {a, b}});
  cases->push_back({.op = "ConcatGrad",
                    .label = "rows, the gradient of one part only",
                    .inputs = {F32({3, 2}, {1, 2, 3, 4, 5, 6}), a, F32({1, 2}, {0, 0})},
                    .attrs = {{"axis", 0}},
                    .differentiate = {0},
                    .expected = {a, F32({1, 2}, {5, 6})},
                    .through = {1}});
  cases->push_back({.op = "Split",
                    .label = "columns",
                    .inputs = {F32({2, 3}, {1, 2, 3, 4, 5, 6})},
                    .attrs = {{"axis", 1}, {"sizes", Ints{1, 0, 2}}},
                    .differentiate = {0},
                    .expected = {F32({2, 1}, {1, 4}), F32({2, 0}, {}), F32({2, 2}, {2, 3, 5, 6})}});
  cases->push_back({.op = "Split",
                    .label = "rows, the gradient of one part only",
                    .inputs = {F32({3, 2}, {1, 2, 3, 4, 5, 6})},
                    .attrs = {{"axis", 0}, {"sizes", Ints{1, 2}}},
                    .differentiate = {0},
                    .expected = {F32({1, 2}, {1, 2}), F32({2, 2}, {3, 4, 5, 6})},
                    .through = {1}});
}

}  // namespace coxswain::testing
