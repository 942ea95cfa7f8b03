#include <algorithm>
#include <string>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Ints = std::vector<int64_t>;

}  // namespace

OP_CASES(transpose) {
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
  // Rows that stay whole, of few bytes and many.
  for (const int64_t width : {1, 2, 3, 4, 8, 16, 33}) {
    const Tensor x = RandomF32({3, 5, 7, width}, 3);
    Tensor wanted(DType::kF32, Shape{3, 7, 5, width});
    float* at = wanted.mutable_data<float>();
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t j = 0; j < 7; ++j) {
        for (int64_t i = 0; i < 5; ++i) {
          const float* const row = x.data<float>() + ((b * 5 + i) * 7 + j) * width;
          at = std::copy(row, row + width, at);
        }
      }
    }
    cases->push_back({.op = "Transpose",
                      .label = "rows of " + std::to_string(width),
                      .inputs = {x},
                      .attrs = {{"perm", Ints{0, 2, 1, 3}}},
                      .differentiate = {0},
                      .expected = {wanted}});
  }
  cases->push_back({.op = "Transpose",
                    .label = "nothing, of i64",
                    .inputs = {I64({0, 3}, {})},
                    .attrs = {{"perm", Ints{1, 0}}},
                    .expected = {I64({3, 0}, {})}});
}

}  // namespace coxswain::testing
