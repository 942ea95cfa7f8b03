#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

float Log1pExp(double x) { return static_cast<float>(std::log1p(std::exp(x))); }

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
}

}  // namespace coxswain::testing
