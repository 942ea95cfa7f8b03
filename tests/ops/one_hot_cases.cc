#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(one_hot) {
  cases->push_back({.op = "OneHot",
                    .label = "",
                    .inputs = {I64({3}, {2, 0, 1})},
                    .attrs = {{"depth", 3}},
                    .expected = {F32({3, 3}, {0, 0, 1, 1, 0, 0, 0, 1, 0})}});
  cases->push_back({.op = "OneHot",
                    .label = "of two dimensions, in f64",
                    .inputs = {I32({1, 2}, {1, 0})},
                    .attrs = {{"depth", 2}, {"dtype", DType::kF64}},
                    .expected = {F64({1, 2, 2}, {0, 1, 1, 0})}});
}

}  // namespace coxswain::testing
