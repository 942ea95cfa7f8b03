#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

float Log1pExp(double x) { return static_cast<float>(std::log1p(std::exp(x))); }

// Labels from 0 to 4.
Tensor Grades(int64_t rows, uint64_t seed) {
  Tensor grades = RandomF32({rows}, seed, 0, 5);
  for (int64_t i = 0; i < rows; ++i) {
    grades.mutable_data<float>()[i] = std::floor(grades.data<float>()[i]);
  }
  return grades;
}

}  // namespace

OP_CASES(ranking_losses) {
  const Tensor scores = F32({6}, {0.5f, -1, 2, 0.25f, 1.5f, -0.75f});
  const Tensor labels = F32({6}, {2, 0, 1, 0, 3, 1});
  const Tensor offsets = I32({4}, {0, 3, 3, 6});
  // Two rows: P = (e, 1) / (e + 1), p = (1, 1) / 2; then one row, which is always right.
  cases->push_back({.op = "ListNet",
                    .label = "two equal scores, a single row, no row",
                    .inputs = {F32({3}, {4, 4, 7}), F32({3}, {1, 0, 5}), I32({4}, {0, 2, 3, 3})},
                    .differentiate = {0},
                    .expected = {F32({3}, {std::log(2.0f), 0, 0})}});
  cases->push_back({.op = "ListNet",
                    .label = "several queries, one of them empty",
                    .inputs = {scores, labels, offsets},
                    .differentiate = {0}});
  cases->push_back(
      {.op = "ListNetGrad",
       .label = "the query's softmax less that of its labels; rows of no query have 0",
       .inputs = {F32({1}, {2}), F32({4}, {1, 1, 9, 9}), F32({4}, {0, 0, 1, 5}), I32({2}, {0, 2})},
       .expected = {F32({4}, {0, 0, 0, 0})}});
  // One pair: ranks 1 and 0, gains 3 and 0, best 3: |3 - 0| (1 - 1 / log2 3) / 3.
  const float swap = static_cast<float>(1 - 1 / std::log2(3.0));
  cases->push_back({.op = "LambdaRank",
                    .label = "a pair in the wrong order; a query without an order; one of 0 alone",
                    .inputs = {F32({6}, {1, 3, 5, 6, 1, 2}), F32({6}, {2, 0, 1, 1, 0, 0}),
                               I32({4}, {0, 2, 4, 6})},
                    .differentiate = {0},
                    .expected = {F32({3}, {swap * Log1pExp(2), 0, 0})}});
  cases->push_back({.op = "LambdaRank",
                    .label = "several queries, another sigma",
                    .inputs = {scores, labels, offsets},
                    .attrs = {{"sigma", 2.5}},
                    .differentiate = {0}});
  cases->push_back({.op = "LambdaRank",
                    .label = "only the first place counts",
                    .inputs = {scores, labels, offsets},
                    .attrs = {{"truncate", int64_t{1}}},
                    .differentiate = {0}});
  cases->push_back({.op = "LambdaRankGrad",
                    .label = "what is too low is pulled up, what is too high down",
                    .inputs = {F32({1}, {1}), F32({2}, {0, 0}), F32({2}, {1, 0}), I32({2}, {0, 2})},
                    .expected = {F32({2}, {-swap / 2, swap / 2})}});
  cases->push_back({.op = "LambdaRank",
                    .label = "a score that is no number",
                    .inputs = {F32({2}, {std::numeric_limits<float>::quiet_NaN(), 0}),
                               F32({2}, {1, 0}), I32({2}, {0, 2})},
                    .verify = [](const std::vector<Tensor>& out) {
                      if (out[0].dtype() == DType::kF32) CHECK(std::isnan(out[0].data<float>()[0]));
                    }});
  // Rows before the first query, between none and behind the last; more than a warp has threads.
  const Tensor many = RandomF32({120}, 41, -3, 3), grades = Grades(120, 42);
  const Tensor lengths = I32({7}, {2, 3, 3, 36, 106, 108, 118});
  const Tensor g = RandomF32({6}, 43);
  for (const char* op : {"ListNet", "LambdaRank"}) {
    cases->push_back({.op = op,
                      .label = "long and short queries, rows of none",
                      .inputs = {many, grades, lengths},
                      .differentiate = {0},
                      .tolerance = 1e-4});
    cases->push_back({.op = op,
                      .label = "no rows",
                      .inputs = {F32({0}, {}), F32({0}, {}), I32({3}, {0, 0, 0})},
                      .expected = {F32({2}, {0, 0})}});
    cases->push_back({.op = op,
                      .label = "no query",
                      .inputs = {F32({2}, {1, 2}), F32({2}, {1, 0}), I32({1}, {1})},
                      .expected = {F32({0}, {})}});
  }
  for (const char* op : {"ListNetGrad", "LambdaRankGrad"}) {
    cases->push_back({.op = op,
                      .label = "long and short queries, rows of none",
                      .inputs = {g, many, grades, lengths},
                      .tolerance = 1e-4,
                      .verify = [](const std::vector<Tensor>& out) {
                        if (out[0].dtype() != DType::kF32) return;
                        for (const int64_t i : {0, 1, 118, 119})
                          CHECK(out[0].data<float>()[i] == 0);
                      }});
    cases->push_back({.op = op,
                      .label = "no query",
                      .inputs = {F32({0}, {}), F32({2}, {1, 2}), F32({2}, {1, 0}), I32({1}, {1})},
                      .expected = {F32({2}, {0, 0})}});
    cases->push_back(
        {.op = op,
         .label = "a score that is no number, in one query of two",
         .inputs = {F32({2}, {1, 1}), F32({4}, {1, std::numeric_limits<float>::quiet_NaN(), 2, 2}),
                    F32({4}, {1, 1, 3, 3}), I32({3}, {0, 2, 4})},
         .expected = {F32({4}, {std::nanf(""), std::nanf(""), 0, 0})}});
  }
  cases->push_back({.op = "LambdaRank",
                    .label = "equal labels have no order, equal scores that of the rows",
                    .inputs = {F32({8}, {3, 1, 2, 0, 0, 0, 0, 0}),
                               F32({8}, {2, 2, 2, 1, 1, 1, 2, 0}), I32({3}, {0, 3, 8})}});
  cases->push_back({.op = "LambdaRank",
                    .label = "of long queries the first five places count",
                    .inputs = {many, grades, lengths},
                    .attrs = {{"sigma", 0.5}, {"truncate", int64_t{5}}},
                    .differentiate = {0},
                    .tolerance = 1e-4});
  cases->push_back({.op = "LambdaRankGrad",
                    .label = "equal scores",
                    .inputs = {F32({1}, {3}), F32({40}, std::vector<float>(40, 0.5f)),
                               Grades(40, 44), I32({2}, {0, 40})},
                    .attrs = {{"truncate", int64_t{7}}}});
  cases->push_back({.op = "LambdaRankGrad",
                    .label = "equal labels",
                    .inputs = {F32({1}, {3}), RandomF32({33}, 45),
                               F32({33}, std::vector<float>(33, 4)), I32({2}, {0, 33})},
                    .expected = {F32({33}, std::vector<float>(33, 0))}});
}

}  // namespace coxswain::testing
