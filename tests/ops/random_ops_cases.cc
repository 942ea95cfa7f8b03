#include <catch2/catch.hpp>
#include <cmath>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

// Mean and variance of the tensor's values.
template <typename T>
std::pair<double, double> Moments(const Tensor& tensor) {
  double sum = 0.0, squares = 0.0;
  for (const T value : tensor.values<T>()) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double n = static_cast<double>(tensor.num_elements());
  return {sum / n, squares / n - sum / n * (sum / n)};
}

}  // namespace

// The seeds are fixed: these are claims about the distribution, at five standard errors of the
// samples.
OP_CASES(random_ops) {
  const Shape shape{40, 999};  // not a multiple of a block
  cases->push_back({.op = "RandomUniform",
                    .label = "in its range, with its moments",
                    .inputs = {},
                    .attrs = {{"shape", shape}, {"low", -2}, {"high", 4.0}, {"seed", 3}},
                    .verify = [](const std::vector<Tensor>& out) {
                      const auto [mean, variance] = Moments<float>(out[0]);
                      CHECK(mean == Approx(1.0).margin(0.045));
                      CHECK(variance == Approx(3.0).margin(0.07));
                      for (float v : out[0].values<float>()) REQUIRE((v >= -2.0f && v < 4.0f));
                    }});
  cases->push_back({.op = "RandomNormal",
                    .label = "with its moments and tails",
                    .inputs = {},
                    .attrs = {{"shape", shape}, {"mean", 0.5}, {"stddev", 2.0}, {"seed", 4}},
                    .verify = [](const std::vector<Tensor>& out) {
                      const auto [mean, variance] = Moments<float>(out[0]);
                      CHECK(mean == Approx(0.5).margin(0.05));
                      CHECK(variance == Approx(4.0).margin(0.15));
                      int beyond = 0;  // two standard deviations: 4.55%
                      for (float v : out[0].values<float>()) beyond += std::fabs(v - 0.5f) > 4.0f;
                      CHECK(beyond / 39960.0 == Approx(0.0455).margin(0.006));
                    }});
  cases->push_back({.op = "RandomInt",
                    .label = "every value equally often",
                    .inputs = {},
                    .attrs = {{"shape", shape}, {"low", -3}, {"high", 7}, {"seed", 5}},
                    .verify = [](const std::vector<Tensor>& out) {
                      int counts[10] = {};
                      for (int64_t v : out[0].values<int64_t>()) {
                        REQUIRE((v >= -3 && v < 7));
                        ++counts[v + 3];
                      }
                      for (int count : counts) CHECK(count == Approx(3996).margin(300));
                    }});
  cases->push_back({.op = "RandomInt",
                    .label = "a range of one",
                    .inputs = {},
                    .attrs = {{"shape", Shape{3}}, {"low", 7}, {"high", 8}},
                    .expected = {I64({3}, {7, 7, 7})}});
  cases->push_back({.op = "RandomNormal",
                    .label = "nothing",
                    .inputs = {},
                    .attrs = {{"shape", Shape{0, 2}}},
                    .expected = {F32({0, 2}, {})}});
}

}  // namespace coxswain::testing
