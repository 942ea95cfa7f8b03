// The words that evaluations hold pairs against.
#include "coordinator/model/sampling.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "coordinator/api/local_function.h"
#include "kernels/register.h"
#include "runtime/env/compute_pool.h"
#include "runtime/function/executor.h"
#include "tests/testing/cluster.h"

namespace coxswain::model {
namespace {

using testing::Must;
using testing::ToVector;

struct Spread {
  std::vector<int64_t> ids;
  std::vector<float> expected;
};

Spread SpreadOf(const std::vector<int64_t>& counts, int64_t n, double distortion) {
  graph::OpRegistry registry;
  kernels::RegisterAllOps(&registry);
  graph::Function built =
      Must(BuildLocalFunction("spread", &registry, {}, ComputeType::kF32, [&](FunctionBuilder& f) {
        Output expected;
        f.Result("ids", SpreadByCount(f, counts, n, distortion, &expected));
        f.Result("expected", expected);
      }));
  const auto function = Must(function::CompiledFunction::Compile(std::move(built)));
  const auto pool = env::NewInlinePool();
  function::RunOptions options;
  options.pool = pool.get();
  const std::vector<Tensor> results = Must(function->Run({}, options));
  return {ToVector<int64_t>(results[0]), ToVector<float>(results[1])};
}

TEST_CASE("words for an evaluation come as often as the distribution says, to within one",
          "[model]") {
  std::vector<int64_t> counts;
  for (int64_t id = 0; id < 300; ++id) counts.push_back(id % 7 == 0 ? 0 : 100000 / (id + 1));
  for (const double distortion : {0.0, 0.75, 1.0, 10.0}) {
    CAPTURE(distortion);
    constexpr int64_t kN = 1000;
    std::vector<double> weights;
    for (const int64_t count : counts) {
      const double share = static_cast<double>(count) / 50000;
      weights.push_back(count > 0 ? std::pow(share, distortion) : 0);
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const Spread spread = SpreadOf(counts, kN, distortion);
    REQUIRE(spread.ids.size() == kN);
    REQUIRE(spread.expected.size() == kN);
    std::vector<double> found(counts.size(), 0);
    for (size_t i = 0; i < kN; ++i) {
      const auto id = static_cast<size_t>(spread.ids[i]);
      REQUIRE(id < counts.size());
      found[id] += 1;
      REQUIRE(spread.expected[i] == Approx(kN * weights[id] / sum).epsilon(1e-5));
    }
    for (size_t id = 0; id < counts.size(); ++id) {
      CAPTURE(id);
      CHECK(std::abs(found[id] - kN * weights[id] / sum) <= 1.0001);
      if (counts[id] == 0) CHECK(found[id] == 0);
    }
  }
  const Spread one = SpreadOf({0, 5, 0}, 3, 1);
  CHECK(one.ids == std::vector<int64_t>{1, 1, 1});
  CHECK(one.expected == std::vector<float>{3, 3, 3});
}

}  // namespace
}  // namespace coxswain::model
