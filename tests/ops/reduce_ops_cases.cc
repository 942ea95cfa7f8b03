#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Ints = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

// All sets of axes of three dimensions, against the definition.
void AddAllAxes(std::vector<OpCase>* cases) {
  const Tensor x = RandomF32({3, 4, 5}, 1);
  for (int set = 0; set < 8; ++set) {
    Ints axes;
    Shape kept;
    for (int i = 0; i < 3; ++i) {
      const bool reduced = set == 0 || (set >> i & 1) != 0;  // the empty list means all
      if (set >> i & 1) axes.push_back(i == 2 ? -1 : i);
      kept.Append(reduced ? 1 : x.dim(i));
    }
    Tensor sum = Tensor::Zeros(DType::kF32, kept), max(DType::kF32, kept);
    std::fill_n(max.mutable_data<float>(), max.num_elements(), -kInf);
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t index[] = {i / 20, i / 5 % 4, i % 5};
      int64_t at = 0;
      for (int d = 0; d < 3; ++d) at = at * kept.dim(d) + (kept.dim(d) == 1 ? 0 : index[d]);
      const float value = x.data<float>()[i];
      sum.mutable_data<float>()[at] += value;
      max.mutable_data<float>()[at] = std::max(max.data<float>()[at], value);
    }
    Tensor mean(DType::kF32, kept);
    const float count = 60.0f / static_cast<float>(sum.num_elements());
    for (int64_t i = 0; i < sum.num_elements(); ++i) {
      mean.mutable_data<float>()[i] = sum.data<float>()[i] / count;
    }
    const struct {
      const char* op;
      Tensor wanted;
    } lines[] = {{"ReduceSum", sum}, {"ReduceMean", mean}, {"ReduceMax", max}};
    for (const bool keep : {true, false}) {
      for (const auto& line : lines) {
        Shape shape;
        for (int i = 0; i < 3; ++i) {
          if (keep || (set != 0 && (set >> i & 1) == 0)) shape.Append(kept.dim(i));
        }
        cases->push_back({.op = line.op,
                          .label = "axes " + AttrValue(axes).ToString(),
                          .inputs = {x},
                          .attrs = {{"axes", axes}, {"keep_dims", keep}},
                          .differentiate = {0},
                          .expected = {line.wanted.Reshaped(shape)}});
      }
      for (const bool is_mean : {true, false}) {
        Shape shape;
        for (int i = 0; i < 3; ++i) {
          if (keep || (set != 0 && (set >> i & 1) == 0)) shape.Append(kept.dim(i));
        }
        cases->push_back({.op = "ReduceGrad",
                          .label = "axes " + AttrValue(axes).ToString(),
                          .inputs = {RandomF32(shape, 3), x},
                          .attrs = {{"axes", axes}, {"keep_dims", keep}, {"mean", is_mean}},
                          .differentiate = {0}});
      }
    }
  }
}

void AddEdges(std::vector<OpCase>* cases) {
  cases->push_back({.op = "ReduceSum",
                    .label = "a scalar",
                    .inputs = {F32({}, {3})},
                    .differentiate = {0},
                    .expected = {F32({}, {3})}});
  cases->push_back({.op = "ReduceMean",
                    .label = "of dimensions of one is the value",
                    .inputs = {F32({1, 2}, {3, 4})},
                    .attrs = {{"axes", Ints{0}}},
                    .differentiate = {0},
                    .expected = {F32({2}, {3, 4})}});
  cases->push_back({.op = "ReduceSum",
                    .label = "i64",
                    .inputs = {I64({2, 2}, {1, 2, 3, int64_t{1} << 40})},
                    .attrs = {{"axes", Ints{1}}},
                    .expected = {I64({2}, {3, (int64_t{1} << 40) + 3})}});
  cases->push_back({.op = "ReduceSum",
                    .label = "over nothing is zero",
                    .inputs = {F32({0, 2}, {})},
                    .attrs = {{"axes", Ints{0}}},
                    .differentiate = {0},
                    .expected = {F32({2}, {0, 0})}});
  cases->push_back({.op = "ReduceSum",
                    .label = "nothing over something",
                    .inputs = {F32({0, 2}, {})},
                    .attrs = {{"axes", Ints{1}}},
                    .expected = {F32({0}, {})}});
  cases->push_back({.op = "ReduceMean",
                    .label = "over nothing is NaN",
                    .inputs = {F32({0, 2}, {})},
                    .expected = {F32({}, {kNan})}});
  cases->push_back({.op = "ReduceMax",
                    .label = "over nothing is -infinity",
                    .inputs = {F32({0}, {})},
                    .expected = {F32({}, {-kInf})}});
  cases->push_back({.op = "ReduceMax",
                    .label = "a NaN anywhere in a row shows",
                    .inputs = {F32({2, 3}, {1, kNan, 2, -3, -1, -2})},
                    .attrs = {{"axes", Ints{1}}},
                    .expected = {F32({2}, {kNan, -1})}});
  // Summed in f32, by rows or by columns, these would be off by far more than the last place.
  Tensor tenths(DType::kF32, {400000, 3});
  std::fill_n(tenths.mutable_data<float>(), tenths.num_elements(), 0.1f);
  const float column = static_cast<float>(400000 * static_cast<double>(0.1f));
  cases->push_back({.op = "ReduceSum",
                    .label = "long columns stay exact",
                    .inputs = {tenths},
                    .attrs = {{"axes", Ints{0}}},
                    .expected = {F32({3}, {column, column, column})},
                    .tolerance = 1e-7});
  cases->push_back(
      {.op = "ReduceSum",
       .label = "a long row stays exact",
       .inputs = {tenths.Reshaped({1200000})},
       .expected = {F32({}, {static_cast<float>(1200000 * static_cast<double>(0.1f))})},
       .tolerance = 1e-7});
  for (const Shape& shape : {Shape{7, 300}, Shape{300, 7}, Shape{2, 70, 300}}) {
    cases->push_back({.op = "ReduceSum",
                      .label = "longer than a vector, first axis of " + shape.ToString(),
                      .inputs = {RandomF32(shape, 5)},
                      .attrs = {{"axes", Ints{0}}}});
    cases->push_back({.op = "ReduceSum",
                      .label = "longer than a vector, last axis of " + shape.ToString(),
                      .inputs = {RandomF32(shape, 6)},
                      .attrs = {{"axes", Ints{-1}}}});
    cases->push_back({.op = "ReduceMax",
                      .label = "longer than a vector, last axis of " + shape.ToString(),
                      .inputs = {RandomF32(shape, 7)},
                      .attrs = {{"axes", Ints{-1}}}});
  }
}

}  // namespace

OP_CASES(reduce_ops) {
  AddAllAxes(cases);
  AddEdges(cases);
}

}  // namespace coxswain::testing
