// What the cases of word_cases.cc cannot say.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("PairDot: a place that is no row is an error that names it") {
  const Tensor a = F32({2, 2}, {1, 2, 3, 4}), b = F32({1, 2}, {1, 1});
  const auto error = [&](Tensor ia, Tensor ib) {
    return ErrorOf({.op = "PairDot", .inputs = {a, b, std::move(ia), std::move(ib)}}, AllOps());
  };
  CHECK(error(I32({1}, {1}), I32({1}, {0})).empty());
  CHECK_THAT(error(I32({2}, {1, 2}), I32({2}, {0, 0})), Contains("2"));
  CHECK_THAT(error(I32({1}, {0}), I32({1}, {-1})), Contains("-1"));
  CHECK_FALSE(error(I32({1}, {0}), I32({2}, {0, 0})).empty());
  CHECK_FALSE(error(I32({1}, {0}), I64({1}, {0})).empty());
}

TEST_CASE("FixedUnigramSampler refuses counts that are no counts") {
  const auto error = [](Tensor unigrams, int64_t sampled) {
    return ErrorOf({.op = "FixedUnigramSampler",
                    .attrs = {{"unigrams", std::move(unigrams)}, {"num_sampled", sampled}}},
                   AllOps());
  };
  CHECK(error(F32({2}, {1, 0}), 4).empty());
  CHECK_THAT(error(F32({2}, {1, -1}), 4), Contains("-1"));
  CHECK_THAT(error(F32({1}, {std::numeric_limits<float>::quiet_NaN()}), 4), Contains("nan"));
  CHECK_THAT(error(F32({2}, {0, 0}), 4), Contains("none"));
  CHECK_THAT(error(F32({0}, {}), 4), Contains("none"));
  CHECK_THAT(error(I64({1}, {1}), 4), Contains("f32"));
  CHECK_THAT(error(F32({1}, {1}), -1), Contains("-1"));
}

}  // namespace
}  // namespace coxswain::testing
