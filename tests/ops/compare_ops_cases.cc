#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

const float kNan = std::nanf("");

}  // namespace

OP_CASES(compare_ops) {
  const Tensor a = F32({4}, {1, 2, 3, kNan}), b = F32({4}, {2, 2, 2, 2});
  const struct {
    const char* op;
    std::vector<int> wanted;
  } lines[] = {{"Equal", {0, 1, 0, 0}},   {"NotEqual", {1, 0, 1, 1}},
               {"Less", {1, 0, 0, 0}},    {"LessEqual", {1, 1, 0, 0}},
               {"Greater", {0, 0, 1, 0}}, {"GreaterEqual", {0, 1, 1, 0}}};
  for (const auto& line : lines) {
    cases->push_back({.op = line.op,
                      .label = "floats, no NaN holds but in NotEqual",
                      .inputs = {a, b},
                      .expected = {Bools({4}, line.wanted)}});
    cases->push_back({.op = line.op,
                      .label = "integers against a column",
                      .inputs = {I64({2, 2}, {1, 2, 2, 3}), I64({2, 1}, {2, 2})},
                      .expected = {Bools({2, 2}, {line.wanted[0], line.wanted[1], line.wanted[1],
                                                  line.wanted[2]})}});
  }
  cases->push_back({.op = "LogicalAnd",
                    .label = "",
                    .inputs = {Bools({4}, {0, 0, 1, 1}), Bools({4}, {0, 1, 0, 1})},
                    .expected = {Bools({4}, {0, 0, 0, 1})}});
  cases->push_back({.op = "LogicalOr",
                    .label = "with a scalar",
                    .inputs = {Bools({2, 2}, {0, 0, 1, 1}), Bools({}, {0})},
                    .expected = {Bools({2, 2}, {0, 0, 1, 1})}});
  cases->push_back({.op = "LogicalNot",
                    .label = "",
                    .inputs = {Bools({3}, {0, 1, 0})},
                    .expected = {Bools({3}, {1, 0, 1})}});
  cases->push_back({.op = "Select",
                    .label = "",
                    .inputs = {Bools({2, 2}, {1, 0, 0, 1}), F32({2, 2}, {1, 2, 3, 4}),
                               F32({2, 2}, {-1, -2, -3, -4})},
                    .differentiate = {1, 2},
                    .expected = {F32({2, 2}, {1, -2, -3, 4})}});
  cases->push_back({.op = "Select",
                    .label = "of bools",
                    .inputs = {Bools({3}, {1, 0, 1}), Bools({3}, {1, 1, 0}), Bools({3}, {0, 0, 1})},
                    .expected = {Bools({3}, {1, 0, 0})}});
}

}  // namespace coxswain::testing
