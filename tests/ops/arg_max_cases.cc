#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

const float kNan = std::nanf("");

}  // namespace

OP_CASES(arg_max) {
  cases->push_back({.op = "ArgMax",
                    .label = "of rows; the first of equal ones",
                    .inputs = {F32({3, 3}, {1, 3, 3, 5, 4, 5, kNan, 9, kNan})},
                    .expected = {I64({3}, {1, 0, 0})}});
  cases->push_back({.op = "ArgMax",
                    .label = "along the first dimension",
                    .inputs = {F32({3, 2}, {1, 6, 3, 5, 2, 4})},
                    .attrs = {{"axis", 0}},
                    .expected = {I64({2}, {1, 0})}});
  cases->push_back({.op = "ArgMax",
                    .label = "along the middle",
                    .inputs = {F32({2, 2, 2}, {1, 2, 3, 0, 5, 6, 4, 7})},
                    .attrs = {{"axis", 1}},
                    .expected = {I64({2, 2}, {1, 0, 0, 1})}});
}

}  // namespace coxswain::testing
