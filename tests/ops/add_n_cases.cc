#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(add_n) {
  cases->push_back({.op = "AddN",
                    .label = "three",
                    .inputs = {F32({2}, {1, 2}), F32({2}, {10, 20}), F32({2}, {100, 200})},
                    .differentiate = {0, 1, 2},
                    .expected = {F32({2}, {111, 222})}});
  cases->push_back({.op = "AddN",
                    .label = "one, longer than a block",
                    .inputs = {RandomF32({1500}, 1)},
                    .differentiate = {0}});
  cases->push_back({.op = "AddN",
                    .label = "two, longer than a block",
                    .inputs = {RandomF32({1500}, 1), RandomF32({1500}, 2)},
                    .differentiate = {0, 1}});
}

}  // namespace coxswain::testing
