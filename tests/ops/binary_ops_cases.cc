#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

const float kNan = std::nanf("");

void AddBroadcasting(std::vector<OpCase>* cases) {
  const Tensor whole = RandomF32({3, 4, 5}, 1, 0.5f, 2.0f);
  const struct {
    const char* label;
    Tensor a, b;
  } pairs[] = {
      {"the same shape", whole, RandomF32({3, 4, 5}, 2, 0.5f, 2.0f)},
      {"a scalar on the right", whole, RandomF32({}, 3, 0.5f, 2.0f)},
      {"a scalar on the left", RandomF32({}, 4, 0.5f, 2.0f), whole},
      {"a row, as a bias", whole, RandomF32({5}, 5, 0.5f, 2.0f)},
      {"a column", whole, RandomF32({4, 1}, 6, 0.5f, 2.0f)},
      {"a middle dimension", RandomF32({3, 1, 5}, 7, 0.5f, 2.0f), whole},
      {"both sides repeat", RandomF32({4, 1}, 8, 0.5f, 2.0f), RandomF32({3, 1, 5}, 9, 0.5f, 2.0f)},
      {"dimensions of one", RandomF32({1, 1}, 10, 0.5f, 2.0f), RandomF32({1}, 11, 0.5f, 2.0f)},
      {"nothing", F32({0, 3}, {}), RandomF32({3}, 12, 0.5f, 2.0f)},
  };
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Maximum", "Minimum"}) {
    for (const auto& pair : pairs) {
      cases->push_back(
          {.op = op, .label = pair.label, .inputs = {pair.a, pair.b}, .differentiate = {0, 1}});
    }
  }
}

void AddArithmetic(std::vector<OpCase>* cases) {
  const Tensor a = F32({2, 2}, {1, -2, 3, 8}), b = F32({2}, {2, -4});
  const struct {
    const char* op;
    Tensor wanted;
  } floats[] = {
      {"Add", F32({2, 2}, {3, -6, 5, 4})},     {"Sub", F32({2, 2}, {-1, 2, 1, 12})},
      {"Mul", F32({2, 2}, {2, 8, 6, -32})},    {"Div", F32({2, 2}, {0.5f, 0.5f, 1.5f, -2})},
      {"Maximum", F32({2, 2}, {2, -2, 3, 8})}, {"Minimum", F32({2, 2}, {1, -4, 2, -4})}};
  for (const auto& line : floats) {
    cases->push_back(
        {.op = line.op, .label = "values", .inputs = {a, b}, .expected = {line.wanted}});
  }
  for (const char* op : {"Maximum", "Minimum"}) {
    cases->push_back({.op = op,
                      .label = "a NaN on either side stays",
                      .inputs = {F32({3}, {kNan, 1, 2}), F32({3}, {1, kNan, 2})},
                      .expected = {F32({3}, {kNan, kNan, 2})}});
  }
  const int64_t big = std::numeric_limits<int64_t>::max();
  cases->push_back({.op = "Add",
                    .label = "i64 wraps around",
                    .inputs = {I64({2}, {big, 5}), I64({2}, {1, -7})},
                    .expected = {I64({2}, {std::numeric_limits<int64_t>::min(), -2})}});
  cases->push_back({.op = "Sub",
                    .label = "i32",
                    .inputs = {I32({2}, {4, 5}), I32({}, {7})},
                    .expected = {I32({2}, {-3, -2})}});
  cases->push_back({.op = "Mul",
                    .label = "i32",
                    .inputs = {I32({2}, {4, -5}), I32({2}, {7, 3})},
                    .expected = {I32({2}, {28, -15})}});
}

}  // namespace

OP_CASES(binary_ops) {
  AddBroadcasting(cases);
  AddArithmetic(cases);
}

}  // namespace coxswain::testing
