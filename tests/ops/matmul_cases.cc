#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

// Small whole numbers, other ones for each `modulus`.
Tensor Whole(Shape shape, int64_t modulus) {
  Tensor t(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.mutable_data<float>()[i] = static_cast<float>(i * 3 % modulus - modulus / 2);
  }
  return t;
}

Tensor WholeProduct(int64_t m, int64_t n, int64_t k, int64_t modulus_a, int64_t modulus_b) {
  const Tensor a = Whole({m, k}, modulus_a), b = Whole({k, n}, modulus_b);
  Tensor c(DType::kF32, Shape{m, n});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a.data<float>()[i * k + l] * b.data<float>()[l * n + j];
      c.mutable_data<float>()[i * n + j] = sum;
    }
  }
  return c;
}

}  // namespace

OP_CASES(matmul) {
  const Tensor a = F32({2, 3}, {1, 2, 3, 4, 5, 6}), a_t = F32({3, 2}, {1, 4, 2, 5, 3, 6});
  const Tensor b = F32({3, 2}, {7, 8, 9, 10, 11, 12}), b_t = F32({2, 3}, {7, 9, 11, 8, 10, 12});
  const Tensor c = F32({2, 2}, {58, 64, 139, 154});
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Attrs attrs = {{"transpose_a", ta}, {"transpose_b", tb}};
      cases->push_back({.op = "MatMul",
                        .label = std::string(ta ? "A'" : "A") + (tb ? " B'" : " B"),
                        .inputs = {ta ? a_t : a, tb ? b_t : b},
                        .attrs = attrs,
                        .differentiate = {0, 1},
                        .expected = {c}});
      cases->push_back(
          {.op = "MatMul",
           .label = std::string(ta ? "A'" : "A") + (tb ? " B'" : " B") + " of odd sizes",
           .inputs = {RandomF32(ta ? Shape{17, 5} : Shape{5, 17}, 1),
                      RandomF32(tb ? Shape{9, 17} : Shape{17, 9}, 2)},
           .attrs = attrs,
           .differentiate = {0, 1}});
      cases->push_back({.op = "BatchMatMul",
                        .label = std::string(ta ? "A'" : "A") + (tb ? " B'" : " B"),
                        .inputs = {RandomF32(ta ? Shape{3, 4, 5} : Shape{3, 5, 4}, 3),
                                   RandomF32(tb ? Shape{3, 6, 4} : Shape{3, 4, 6}, 4)},
                        .attrs = attrs,
                        .differentiate = {0, 1}});
    }
  }
  // Numbers that bf16 holds exactly, so the results are as in f32. The small ones that follow are
  // computed in f32: their gradients show that the attribute changes nothing else.
  cases->push_back({.op = "MatMul",
                    .label = "in bf16, exact numbers",
                    .inputs = {Whole({17, 32}, 7), Whole({32, 19}, 5)},
                    .attrs = {{"compute", "bf16"}},
                    .expected = {WholeProduct(17, 19, 32, 7, 5)}});
  cases->push_back({.op = "BatchMatMul",
                    .label = "in bf16",
                    .inputs = {RandomF32({2, 3, 4}, 3), RandomF32({2, 4, 5}, 4)},
                    .attrs = {{"compute", "bf16"}},
                    .differentiate = {0, 1}});
  cases->push_back({.op = "FusedDense",
                    .label = "in bf16",
                    .inputs = {RandomF32({5, 4}, 8), RandomF32({4, 6}, 9), RandomF32({6}, 10)},
                    .attrs = {{"compute", "bf16"}},
                    .differentiate = {0, 1, 2}});
  // Matrices of one column or one row have loops of their own.
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Attrs attrs = {{"transpose_a", ta}, {"transpose_b", tb}};
      const auto shape = [](int64_t rows, int64_t columns, bool transposed) {
        return transposed ? Shape{columns, rows} : Shape{rows, columns};
      };
      cases->push_back(
          {.op = "MatMul",
           .label = "one column",
           .inputs = {RandomF32(shape(70, 83, ta), 20), RandomF32(shape(83, 1, tb), 21)},
           .attrs = attrs,
           .tolerance = 1e-4});
      cases->push_back(
          {.op = "MatMul",
           .label = "an inner dimension of 1",
           .inputs = {RandomF32(shape(35, 1, ta), 22), RandomF32(shape(1, 67, tb), 23)},
           .attrs = attrs});
    }
  }
  cases->push_back({.op = "FusedDense",
                    .label = "one column",
                    .inputs = {RandomF32({37, 45}, 24), RandomF32({45, 1}, 25), F32({1}, {0.5f})},
                    .attrs = {{"activation", "relu"}},
                    .differentiate = {0, 1, 2},
                    .tolerance = 1e-4});
  cases->push_back({.op = "BatchMatMul",
                    .label = "two products",
                    .inputs = {F32({2, 1, 2}, {1, 2, 3, 4}), F32({2, 2, 1}, {5, 6, 7, 8})},
                    .attrs = {},
                    .expected = {F32({2, 1, 1}, {17, 53})}});
  cases->push_back({.op = "BatchMatMul",
                    .label = "a batch of one",
                    .inputs = {RandomF32({1, 3, 2}, 5), RandomF32({1, 2, 4}, 6)},
                    .attrs = {},
                    .differentiate = {0, 1}});
  cases->push_back({.op = "BatchMatMul",
                    .label = "no batch",
                    .inputs = {F32({0, 3, 2}, {}), F32({0, 2, 4}, {})},
                    .attrs = {},
                    .expected = {F32({0, 3, 4}, {})}});
  cases->push_back({.op = "MatMul",
                    .label = "no rows",
                    .inputs = {F32({0, 2}, {}), F32({2, 3}, {1, 2, 3, 4, 5, 6})},
                    .attrs = {},
                    .expected = {F32({0, 3}, {})}});
  cases->push_back({.op = "MatMul",
                    .label = "no columns",
                    .inputs = {F32({2, 1}, {1, 2}), F32({1, 0}, {})},
                    .attrs = {},
                    .expected = {F32({2, 0}, {})}});
  cases->push_back({.op = "MatMul",
                    .label = "an empty sum is 0",
                    .inputs = {F32({2, 0}, {}), F32({0, 2}, {})},
                    .attrs = {},
                    .expected = {F32({2, 2}, {0, 0, 0, 0})}});
  cases->push_back({.op = "FusedDense",
                    .label = "without activation",
                    .inputs = {a, b, F32({2}, {-60, 1})},
                    .attrs = {},
                    .differentiate = {0, 1, 2},
                    .expected = {F32({2, 2}, {-2, 65, 79, 155})}});
  cases->push_back({.op = "FusedDense",
                    .label = "with relu",
                    .inputs = {a, b, F32({2}, {-60, 1})},
                    .attrs = {{"activation", "relu"}},
                    .differentiate = {0, 1, 2},
                    .expected = {F32({2, 2}, {0, 65, 79, 155})}});
  cases->push_back({.op = "FusedDense",
                    .label = "an empty sum leaves the bias",
                    .inputs = {F32({2, 0}, {}), F32({0, 2}, {}), F32({2}, {-1, 3})},
                    .attrs = {{"activation", "relu"}},
                    .expected = {F32({2, 2}, {0, 3, 0, 3})}});
}

}  // namespace coxswain::testing
