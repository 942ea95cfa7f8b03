// Ops of skip-gram models.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

void AddPairDot(std::vector<OpCase>* cases) {
  const Tensor a = F32({2, 2}, {1, 2, 3, 4}), b = F32({3, 2}, {10, 0, 0, 1, 5, 5});
  const Tensor ia = I32({4}, {1, 0, 1, 1}), ib = I32({4}, {0, 2, 2, 1});
  cases->push_back({.op = "PairDot",
                    .label = "rows in several pairs and in none",
                    .inputs = {a, b, ia, ib},
                    .differentiate = {0, 1},
                    .expected = {F32({4}, {30, 15, 35, 4})}});
  cases->push_back({.op = "PairDot",
                    .label = "places of 64 bits, wide rows",
                    .inputs = {RandomF32({5, 37}, 1), RandomF32({4, 37}, 2),
                               I64({6}, {4, 0, 4, 2, 2, 3}), I64({6}, {0, 0, 3, 1, 1, 2})},
                    .differentiate = {0, 1}});
  cases->push_back(
      {.op = "PairDot",
       .label = "no pairs",
       .inputs = {F32({0, 3}, {}), F32({2, 3}, {1, 2, 3, 4, 5, 6}), I32({0}, {}), I32({0}, {})},
       .expected = {F32({0}, {})}});
  // da of PairDot with g = 1, 2, 3, 4: row 0 is in pair 1, row 1 in the others.
  cases->push_back({.op = "PairDotGrad",
                    .label = "sums over a row's pairs, itself differentiated",
                    .inputs = {F32({4}, {1, 2, 3, 4}), b, ia, ib, a},
                    .differentiate = {0, 1},
                    .expected = {F32({2, 2}, {10, 10, 25, 19})}});
  cases->push_back({.op = "PairDotGrad",
                    .label = "no pairs: zeros",
                    .inputs = {F32({0}, {}), b, I32({0}, {}), I32({0}, {}), a},
                    .expected = {F32({2, 2}, {0, 0, 0, 0})}});
}

void AddLoss(std::vector<OpCase>* cases) {
  const float l = std::log(2.0f);
  cases->push_back({.op = "NegativeSamplingLoss",
                    .label = "small, large and infinite logits",
                    .inputs = {F32({3, 3}, {0, 0, 0, 100, -100, 0, -500, -INFINITY, -90})},
                    .expected = {F32({3}, {3 * l, 100 + l, 0}),
                                 F32({3, 3}, {.5f, .5f, .5f, 1, 0, .5f, 0, 0, 0})}});
  cases->push_back({.op = "NegativeSamplingLoss",
                    .label = "the gradient, over more columns than one logarithm takes",
                    .inputs = {RandomF32({4, 150}, 12, -6.0f, 6.0f)},
                    .differentiate = {0},
                    .through = {0}});
  cases->push_back({.op = "NegativeSamplingLoss",
                    .label = "the largest product",
                    .inputs = {F32({1, 64}, std::vector<float>(64, 0.0f))},
                    .expected = {F32({1}, {64 * l}), F32({1, 64}, std::vector<float>(64, 0.5f))}});
  cases->push_back({.op = "NegativeSamplingLoss",
                    .label = "no columns: no loss",
                    .inputs = {F32({2, 0}, {})},
                    .expected = {F32({2}, {0, 0}), F32({2, 0}, {})}});
}

// Pearson's statistic of the ids' counts against what they should be, and that no id came which has
// no chance.
double ChiSquare(const std::vector<Tensor>& out, const std::vector<double>& chances) {
  std::vector<double> counts(chances.size(), 0);
  for (const int64_t id : out[0].values<int64_t>()) {
    REQUIRE((id >= 0 && id < static_cast<int64_t>(counts.size())));
    counts[static_cast<size_t>(id)] += 1;
  }
  double statistic = 0;
  for (size_t i = 0; i < chances.size(); ++i) {
    const double wanted = chances[i] * static_cast<double>(out[0].num_elements());
    if (wanted == 0) {
      REQUIRE(counts[i] == 0);
    } else {
      statistic += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
    }
  }
  return statistic;
}

void AddSampler(std::vector<OpCase>* cases) {
  // 40 ids that occur 0, 1, 2, 0, 4, 5, ... times.
  std::vector<float> counts;
  for (int i = 0; i < 40; ++i) counts.push_back(i % 3 == 0 ? 0.0f : static_cast<float>(i));
  for (const double distortion : {0.75, 1.0, 0.0}) {
    std::vector<double> chances;
    double sum = 0;
    for (const float count : counts) {
      chances.push_back(count > 0 ? std::pow(count, distortion) : 0);
      sum += chances.back();
    }
    for (double& chance : chances) chance /= sum;
    cases->push_back({.op = "FixedUnigramSampler",
                      .label = "a power of the counts: " + std::to_string(distortion),
                      .attrs = {{"unigrams", F32({40}, counts)},
                                {"num_sampled", 20000},
                                {"distortion", distortion},
                                {"seed", 6}},
                      .verify = [chances](const std::vector<Tensor>& out) {
                        // 26 ids: 25 degrees of freedom, of which 52.6 is the 0.999 quantile.
                        CHECK(ChiSquare(out, chances) < 52.6);
                        for (int64_t i = 0; i < 20000; ++i) {
                          const size_t id = static_cast<size_t>(out[0].data<int64_t>()[i]);
                          REQUIRE(out[1].data<float>()[i] == Approx(20000 * chances[id]));
                        }
                      }});
  }
  cases->push_back({.op = "FixedUnigramSampler",
                    .label = "one id",
                    .attrs = {{"unigrams", F32({3}, {0, 7, 0})}, {"num_sampled", 3}},
                    .expected = {I64({3}, {1, 1, 1}), F32({3}, {3, 3, 3})}});
  cases->push_back({.op = "FixedUnigramSampler",
                    .label = "none",
                    .attrs = {{"unigrams", F32({1}, {1})}, {"num_sampled", 0}},
                    .expected = {I64({0}, {}), F32({0}, {})}});
}

}  // namespace

void AddWordCases(std::vector<OpCase>* cases) {
  AddPairDot(cases);
  AddLoss(cases);
  AddSampler(cases);
}

}  // namespace coxswain::testing
