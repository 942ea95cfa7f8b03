#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

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

}  // namespace

OP_CASES(unary_ops) {
  AddUnary(cases);
  AddUnaryValues(cases);
}

}  // namespace coxswain::testing
