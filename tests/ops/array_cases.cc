#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Ints = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor BF16(Shape shape, std::vector<float> values) {
  Tensor tensor(DType::kBF16, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.mutable_data<BFloat16>()[i] = BFloat16::FromFloat(values[i]);
  }
  return tensor;
}

void AddCasts(std::vector<OpCase>* cases) {
  // Values that every dtype but bool holds.
  const std::vector<int> numbers = {0, 1, 2, 100};
  const struct {
    DType dtype;
    Tensor tensor;
  } all[] = {{DType::kF32, F32({4}, {0, 1, 2, 100})},
             {DType::kF64, F64({4}, {0, 1, 2, 100})},
             {DType::kI32, I32({4}, {0, 1, 2, 100})},
             {DType::kI64, I64({4}, {0, 1, 2, 100})},
             {DType::kBF16, BF16({4}, {0, 1, 2, 100})}};
  for (const auto& from : all) {
    for (const auto& to : all) {
      cases->push_back(
          {.op = "Cast",
           .label = std::string(DTypeName(from.dtype)) + " to " + std::string(DTypeName(to.dtype)),
           .inputs = {from.tensor},
           .attrs = {{"dtype", to.dtype}},
           .expected = {to.tensor}});
    }
    cases->push_back({.op = "Cast",
                      .label = "to bool",
                      .inputs = {from.tensor},
                      .attrs = {{"dtype", DType::kBool}},
                      .expected = {Bools({4}, {0, 1, 1, 1})}});
  }
  cases->push_back({.op = "Cast",
                    .label = "bool to f32",
                    .inputs = {Bools({2}, {0, 1})},
                    .attrs = {{"dtype", DType::kF32}},
                    .expected = {F32({2}, {0, 1})}});
  cases->push_back(
      {.op = "Cast",
       .label = "floats that do not fit saturate",
       .inputs = {F32({6}, {3e9f, -3e9f, kInf, -kInf, std::nanf(""), -1.75f})},
       .attrs = {{"dtype", DType::kI32}},
       .expected = {I32({6}, {2147483647, -2147483647 - 1, 2147483647, -2147483647 - 1, 0, -1})}});
  const int64_t top = std::numeric_limits<int64_t>::max();
  cases->push_back({.op = "Cast",
                    .label = "doubles that do not fit saturate",
                    .inputs = {F64({4}, {1e19, -1e19, 9223372036854775808.0, -0.5})},
                    .attrs = {{"dtype", DType::kI64}},
                    .expected = {I64({4}, {top, -top - 1, top, 0})}});
  cases->push_back({.op = "Cast",
                    .label = "bf16 rounds to nearest even",
                    .inputs = {F32({3}, {1.00390625f, 1.01171875f, 1.0f})},  // 1 + 2^-8, 1 + 3/2^8
                    .attrs = {{"dtype", DType::kBF16}},
                    .expected = {BF16({3}, {1.0f, 1.015625f, 1.0f})}});
  for (const DType to : {DType::kF32, DType::kF64, DType::kBF16}) {
    cases->push_back({.op = "Cast",
                      .label = "differentiated",
                      .inputs = {F32({3}, {0.5f, -1.5f, 2})},
                      .attrs = {{"dtype", to}},
                      .differentiate = {0},
                      .tolerance = to == DType::kBF16 ? 1e-2 : 1e-5});
  }
}

void AddReshapes(std::vector<OpCase>* cases) {
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

void AddConcats(std::vector<OpCase>* cases) {
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

void AddSlices(std::vector<OpCase>* cases) {
  const Tensor x = F32({3, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});
  const struct {
    const char* label;
    Ints begin, size;
    Tensor wanted;
  } lines[] = {
      {"a block", {1, 1}, {2, 2}, F32({2, 2}, {11, 12, 21, 22})},
      {"whole rows", {1, 0}, {-1, -1}, F32({2, 4}, {10, 11, 12, 13, 20, 21, 22, 23})},
      {"the rest of the columns", {0, 3}, {3, -1}, F32({3, 1}, {3, 13, 23})},
      {"everything", {0, 0}, {-1, 4}, x},
      {"nothing", {3, 1}, {-1, 2}, F32({0, 2}, {})},
  };
  for (const auto& line : lines) {
    const Attrs block = {{"begin", line.begin}, {"size", line.size}};
    cases->push_back({.op = "Slice",
                      .label = line.label,
                      .inputs = {x},
                      .attrs = block,
                      .differentiate = {0},
                      .expected = {line.wanted}});
    cases->push_back({.op = "SliceGrad",
                      .label = line.label,
                      .inputs = {line.wanted, x},
                      .attrs = block,
                      .differentiate = {0}});
  }
  Tensor cube(DType::kF32, {3, 4, 2, 3});
  for (int i = 0; i < 72; ++i) cube.mutable_data<float>()[i] = static_cast<float>(i);
  cases->push_back(
      {.op = "Slice",
       .label = "cut in the first three of four dimensions",
       .inputs = {cube},
       .attrs = {{"begin", Ints{1, 1, 1, 0}}, {"size", Ints{2, 2, 1, -1}}},
       .differentiate = {0},
       .expected = {F32({2, 2, 1, 3}, {33, 34, 35, 39, 40, 41, 57, 58, 59, 63, 64, 65})}});
  cases->push_back({.op = "Slice",
                    .label = "ids",
                    .inputs = {I64({4}, {1, 2, 3, 4})},
                    .attrs = {{"begin", Ints{1}}, {"size", Ints{2}}},
                    .expected = {I64({2}, {2, 3})}});
}

void AddTransposes(std::vector<OpCase>* cases) {
  cases->push_back({.op = "Transpose",
                    .label = "a matrix",
                    .inputs = {F32({2, 3}, {1, 2, 3, 4, 5, 6})},
                    .attrs = {{"perm", Ints{1, 0}}},
                    .differentiate = {0},
                    .expected = {F32({3, 2}, {1, 4, 2, 5, 3, 6})}});
  for (const Ints& perm :
       {Ints{0, 1, 2}, Ints{0, 2, 1}, Ints{1, 0, 2}, Ints{1, 2, 0}, Ints{2, 0, 1}, Ints{2, 1, 0}}) {
    const Tensor x = RandomF32({3, 20, 37}, 1);
    cases->push_back({.op = "Transpose",
                      .label = "by " + AttrValue(perm).ToString(),
                      .inputs = {x},
                      .attrs = {{"perm", perm}},
                      .differentiate = {},
                      .verify = nullptr});
    Tensor wanted;
    Shape shape;
    for (int64_t p : perm) shape.Append(x.dim(static_cast<int>(p)));
    wanted = Tensor(DType::kF32, shape);
    const int64_t strides[] = {20 * 37, 37, 1};
    float* at = wanted.mutable_data<float>();
    for (int64_t i = 0; i < shape.dim(0); ++i) {
      for (int64_t j = 0; j < shape.dim(1); ++j) {
        for (int64_t k = 0; k < shape.dim(2); ++k) {
          *at++ =
              x.data<float>()[i * strides[perm[0]] + j * strides[perm[1]] + k * strides[perm[2]]];
        }
      }
    }
    cases->back().expected = {wanted};
    cases->push_back({.op = "Transpose",
                      .label = "differentiated, by " + AttrValue(perm).ToString(),
                      .inputs = {RandomF32({2, 3, 4}, 2)},
                      .attrs = {{"perm", perm}},
                      .differentiate = {0}});
  }
  cases->push_back({.op = "Transpose",
                    .label = "nothing, of i64",
                    .inputs = {I64({0, 3}, {})},
                    .attrs = {{"perm", Ints{1, 0}}},
                    .expected = {I64({3, 0}, {})}});
}

}  // namespace

void AddArrayCases(std::vector<OpCase>* cases) {
  AddCasts(cases);
  AddReshapes(cases);
  AddConcats(cases);
  AddSlices(cases);
  AddTransposes(cases);
}

}  // namespace coxswain::testing
