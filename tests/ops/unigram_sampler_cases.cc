#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

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

}  // namespace

OP_CASES(unigram_sampler) {
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

}  // namespace coxswain::testing
