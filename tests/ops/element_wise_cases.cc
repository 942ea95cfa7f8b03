#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
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

void AddComparisons(std::vector<OpCase>* cases) {
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

// Inputs lie off the kinks, so that differences mean something.
void AddUnary(std::vector<OpCase>* cases) {
  const Tensor x = F32({2, 3}, {0.5f, -1.25f, 2.0f, -0.3f, 3.5f, 0.75f});
  const Tensor positive = F32({2, 3}, {0.5f, 1.25f, 2.0f, 0.3f, 3.5f, 0.75f});
  for (const char* op :
       {"Neg", "Exp", "Square", "Abs", "Tanh", "Sigmoid", "Relu", "Softplus", "Reciprocal"}) {
    cases->push_back({.op = op, .label = "both signs", .inputs = {x}, .differentiate = {0}});
    cases->push_back(
        {.op = op, .label = "nothing", .inputs = {F32({0, 2}, {})}, .differentiate = {0}});
  }
  for (const char* op : {"Log", "Sqrt", "Rsqrt"}) {
    cases->push_back({.op = op, .label = "positive", .inputs = {positive}, .differentiate = {0}});
  }
  const Tensor g = F32({2, 3}, {1, -2, 3, -4, 5, -6});
  const Tensor y = F32({2, 3}, {0.5f, -0.25f, 0.75f, -0.9f, 0.1f, 0.3f});
  cases->push_back({.op = "ReluGrad",
                    .label = "",
                    .inputs = {g, F32({2, 3}, {1, 0, 2, 0, 0, 4})},
                    .differentiate = {0},
                    .expected = {F32({2, 3}, {1, 0, 3, 0, 0, -6})}});
  cases->push_back({.op = "TanhGrad", .label = "", .inputs = {g, y}, .differentiate = {0, 1}});
  cases->push_back({.op = "SigmoidGrad", .label = "", .inputs = {g, y}, .differentiate = {0, 1}});
}

void AddUnaryValues(std::vector<OpCase>* cases) {
  const Tensor edges = F32({5}, {-kInf, -1, 0, kInf, kNan});
  const float e = 2.718281828f;
  const struct {
    const char* op;
    Tensor x, wanted;
  } lines[] = {
      {"Neg", edges, F32({5}, {kInf, 1, 0, -kInf, kNan})},
      {"Exp", edges, F32({5}, {0, 1 / e, 1, kInf, kNan})},
      {"Log", edges, F32({5}, {kNan, kNan, -kInf, kInf, kNan})},
      {"Log", F32({3}, {1, e, 1e-42f}), F32({3}, {0, 1, std::log(1e-42f)})},
      {"Square", edges, F32({5}, {kInf, 1, 0, kInf, kNan})},
      {"Sqrt", edges, F32({5}, {kNan, kNan, 0, kInf, kNan})},
      {"Rsqrt", F32({3}, {4, 0, kInf}), F32({3}, {0.5f, kInf, 0})},
      {"Abs", edges, F32({5}, {kInf, 1, 0, kInf, kNan})},
      {"Sign", edges, F32({5}, {-1, -1, 0, 1, kNan})},
      {"Tanh", edges, F32({5}, {-1, std::tanh(-1.0f), 0, 1, kNan})},
      {"Sigmoid", edges, F32({5}, {0, 1 / (1 + e), 0.5f, 1, kNan})},
      {"Relu", edges, F32({5}, {0, 0, 0, kInf, kNan})},
      {"Softplus", edges, F32({5}, {0, std::log1p(1 / e), std::log(2.0f), kInf, kNan})},
      {"Reciprocal", F32({3}, {4, 0, -kInf}), F32({3}, {0.25f, kInf, 0})},
  };
  for (const auto& line : lines) {
    cases->push_back(
        {.op = line.op, .label = "at the edges", .inputs = {line.x}, .expected = {line.wanted}});
  }
}

void AddLikes(std::vector<OpCase>* cases) {
  const Tensor whole = RandomF32({2, 3, 4}, 1);
  const Tensor likes[] = {RandomF32({2, 3, 4}, 2), RandomF32({3, 4}, 2),    RandomF32({4}, 2),
                          RandomF32({3, 1}, 2),    RandomF32({2, 1, 4}, 2), RandomF32({}, 2),
                          RandomF32({1, 1, 1}, 2)};
  for (const Tensor& like : likes) {
    cases->push_back({.op = "SumToLike",
                      .label = "to " + like.shape().ToString(),
                      .inputs = {whole, like},
                      .differentiate = {0}});
    cases->push_back({.op = "BroadcastLike",
                      .label = "from " + like.shape().ToString(),
                      .inputs = {like, whole},
                      .differentiate = {0}});
  }
  cases->push_back({.op = "SumToLike",
                    .label = "values",
                    .inputs = {F32({2, 2}, {1, 2, 3, 4}), F32({2, 1}, {0, 0})},
                    .differentiate = {0},
                    .expected = {F32({2, 1}, {3, 7})}});
  cases->push_back({.op = "SumToLike",
                    .label = "a batch of none",
                    .inputs = {F32({0, 2}, {}), F32({2}, {0, 0})},
                    .expected = {F32({2}, {0, 0})}});
  cases->push_back({.op = "BroadcastLike",
                    .label = "values, `like` of another dtype",
                    .inputs = {F32({2, 1}, {1, 2}), I64({2, 2}, {0, 0, 0, 0})},
                    .expected = {F32({2, 2}, {1, 1, 2, 2})}});
}

}  // namespace

void AddElementWiseCases(std::vector<OpCase>* cases) {
  AddBroadcasting(cases);
  AddArithmetic(cases);
  AddComparisons(cases);
  AddUnary(cases);
  AddUnaryValues(cases);
  AddLikes(cases);
}

}  // namespace coxswain::testing
