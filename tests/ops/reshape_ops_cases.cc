#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(reshape_ops) {
  const Tensor x = RandomF32({2, 6}, 1);
  cases->push_back({.op = "Reshape",
                    .label = "an open dimension",
                    .inputs = {x},
                    .attrs = {{"shape", Shape{3, -1, 2}}},
                    .differentiate = {0},
                    .expected = {x.Reshaped({3, 2, 2})}});
  cases->push_back({.op = "Reshape",
                    .label = "to a scalar",
                    .inputs = {F32({1, 1}, {5})},
                    .attrs = {{"shape", Shape{}}},
                    .expected = {F32({}, {5})}});
  cases->push_back({.op = "Reshape",
                    .label = "nothing",
                    .inputs = {F32({0, 4}, {})},
                    .attrs = {{"shape", Shape{-1, 2}}},
                    .expected = {F32({0, 2}, {})}});
  cases->push_back({.op = "ReshapeLike",
                    .label = "",
                    .inputs = {x, RandomF32({4, 3}, 2)},
                    .differentiate = {0},
                    .expected = {x.Reshaped({4, 3})}});
  for (const auto& [axis, shape] : std::vector<std::pair<int, Shape>>{
           {0, {1, 2, 6}}, {1, {2, 1, 6}}, {2, {2, 6, 1}}, {-1, {2, 6, 1}}}) {
    cases->push_back({.op = "ExpandDims",
                      .label = "axis " + std::to_string(axis),
                      .inputs = {x},
                      .attrs = {{"axis", axis}},
                      .differentiate = {0},
                      .expected = {x.Reshaped(shape)}});
    cases->push_back({.op = "Squeeze",
                      .label = "axis " + std::to_string(axis),
                      .inputs = {x.Reshaped(shape)},
                      .attrs = {{"axis", axis}},
                      .differentiate = {0},
                      .expected = {x}});
  }
}

}  // namespace coxswain::testing
