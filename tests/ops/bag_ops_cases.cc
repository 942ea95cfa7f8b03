#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(bag_ops) {
  cases->push_back(
      {.op = "InBags",
       .label = "ids that come twice, values that come twice, an empty bag",
       .inputs = {I64({5}, {7, 3, 3, 9, 7}), I32({4}, {0, 3, 3, 5}), I64({4}, {3, 7, 5, 3})},
       .expected = {F32({3, 4}, {1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0})}});
  cases->push_back({.op = "InBags",
                    .label = "no bags",
                    .inputs = {I64({0}, {}), I32({1}, {0}), I64({2}, {3, 7})},
                    .expected = {F32({0, 2}, {})}});
  cases->push_back({.op = "InBags",
                    .label = "no ids",
                    .inputs = {I64({1}, {4}), I32({2}, {0, 1}), I64({0}, {})},
                    .expected = {F32({1, 0}, {})}});
  cases->push_back({.op = "BagOf",
                    .label = "with an empty bag",
                    .inputs = {I32({4}, {0, 2, 2, 5}), I64({5}, {7, 3, 3, 9, 7})},
                    .expected = {I64({5}, {0, 0, 2, 2, 2})}});
  cases->push_back({.op = "BagOf",
                    .label = "nothing",
                    .inputs = {I32({1}, {0}), F32({0}, {})},
                    .expected = {I64({0}, {})}});
  cases->push_back({.op = "PickBags",
                    .label = "a bag twice, an empty one, offsets that do not begin at 0",
                    .inputs = {I32({5}, {1, 3, 3, 4, 7}), I64({4}, {3, 1, 0, 3})},
                    .expected = {I64({8}, {4, 5, 6, 1, 2, 4, 5, 6}), I32({5}, {0, 3, 3, 5, 8})}});
  cases->push_back({.op = "PickBags",
                    .label = "none",
                    .inputs = {I32({2}, {0, 2}), I64({0}, {})},
                    .expected = {I64({0}, {}), I32({1}, {0})}});
}

}  // namespace coxswain::testing
