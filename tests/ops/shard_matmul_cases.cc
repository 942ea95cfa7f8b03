#include "absl/strings/str_cat.h"
#include "tests/ops/matrix_shards.h"
#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(shard_matmul) {
  const auto variables = [] { return SharedMatrices(); };
  const Tensor a = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  cases->push_back({.op = "MatMulShard",
                    .label = "x W'",
                    .inputs = {a},
                    .attrs = OnMatrix(3, {2, 3}, true),
                    .differentiate = {0},
                    .expected = {F32({2, 2}, {58, 64, 139, 154})},
                    .variables = variables});
  cases->push_back({.op = "MatMulShard",
                    .label = "x W",
                    .inputs = {F32({1, 2}, {1, -1})},
                    .attrs = OnMatrix(3, {2, 3}),
                    .differentiate = {0},
                    .expected = {F32({1, 3}, {-1, -1, -1})},
                    .variables = variables});
  for (const bool transpose : {false, true}) {
    cases->push_back({.op = "MatMulShard",
                      .label = absl::StrCat("of odd sizes", transpose ? ", x W'" : ", x W"),
                      .inputs = {RandomF32(transpose ? Shape{5, 17} : Shape{5, 20}, 1)},
                      .attrs = OnMatrix(4, {20, 17}, transpose),
                      .differentiate = {0},
                      .variables = variables});
    cases->push_back({.op = "MatMulShard",
                      .label = absl::StrCat("in f64", transpose ? ", x W'" : ", x W"),
                      .inputs = {F64(transpose ? Shape{2, 3} : Shape{2, 4},
                                     std::vector<double>(transpose ? 6 : 8, 0.75))},
                      .attrs = OnMatrix(6, {4, 3}, transpose),
                      .differentiate = {0},
                      .variables = variables});
  }
  cases->push_back({.op = "MatMulShard",
                    .label = "a shard without rows",
                    .inputs = {a},
                    .attrs = OnMatrix(5, {0, 3}, true),
                    .expected = {F32({2, 0}, {})},
                    .variables = variables});
  cases->push_back({.op = "MatMulShard",
                    .label = "no examples",
                    .inputs = {F32({0, 2}, {})},
                    .attrs = OnMatrix(3, {2, 3}),
                    .expected = {F32({0, 3}, {})},
                    .variables = variables});
  cases->push_back({.op = "ApplyMatMul",
                    .label = "a product",
                    .inputs = {RandomF32({5, 2}, 1), RandomF32({5, 3}, 2)},
                    .attrs = OnMatrix(3, {2, 3}),
                    .variables = variables});
}

}  // namespace coxswain::testing
