// The fast functions against the C library in double, at every level of vectors this machine has.
#include "kernels/cpu/vector_math.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/philox.h"

namespace coxswain::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Floats of all magnitudes and both signs, infinities and NaN among them.
std::vector<float> AllKinds() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 30011) {
    values.push_back(BitsToFloat(static_cast<uint32_t>(bits)));
  }
  values.insert(values.end(), {0.0f, -0.0f, kInf, -kInf, std::nanf(""), 88.72f, 88.73f, -87.3f,
                               -103.9f, 1e-45f, 0.6249f, 0.6251f});
  return values;
}

// The largest error in units of the last place; infinite when a special value is not met.
template <typename Fast, typename Exact>
double WorstError(SimdLevel level, float low, Fast fast, Exact exact) {
  std::vector<float> in = AllKinds();
  in.erase(std::remove_if(in.begin(), in.end(), [&](float x) { return x < low; }), in.end());
  std::vector<float> out(in.size());
  const int64_t n = static_cast<int64_t>(in.size());
  RunSimdAt(level, [&]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = fast(in[i]);
  });
  double worst = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    const double wanted = exact(static_cast<double>(in[i]));
    const float rounded = static_cast<float>(wanted);
    if (std::isnan(rounded) && std::isnan(out[i])) continue;
    if (rounded == out[i]) continue;
    if (!std::isfinite(rounded) || !std::isfinite(out[i])) return kInf;
    const double unit = static_cast<double>(std::nextafter(std::fabs(rounded), kInf)) -
                        static_cast<double>(std::fabs(rounded));
    worst = std::max(worst, std::fabs(static_cast<double>(out[i]) - wanted) / unit);
  }
  return worst;
}

TEST_CASE("fast functions are within three units of the last place at every level of vectors") {
  for (int l = 0; l <= static_cast<int>(CurrentSimd()); ++l) {
    const SimdLevel level = static_cast<SimdLevel>(l);
    INFO("level " << l);
    CHECK(WorstError(
              level, -kInf, [](float x) COX_SIMD_BODY { return FastExp(x); },
              [](double x) { return std::exp(x); }) <= 2.0);
    CHECK(WorstError(
              level, -kInf, [](float x) COX_SIMD_BODY { return FastLog(x); },
              [](double x) { return std::log(x); }) <= 2.0);
    CHECK(WorstError(
              level, -kInf, [](float x) COX_SIMD_BODY { return FastTanh(x); },
              [](double x) { return std::tanh(x); }) <= 2.0);
    // Below -87 the result is no normal number, and e^-x overflows first.
    CHECK(WorstError(
              level, -87.0f, [](float x) COX_SIMD_BODY { return FastSigmoid(x); },
              [](double x) { return 1.0 / (1.0 + std::exp(-x)); }) <= 3.0);
    CHECK(WorstError(
              level, -kInf, [](float x) COX_SIMD_BODY { return FastSoftplus(x); },
              [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }) <=
          3.0);
  }
}

TEST_CASE("vector functions agree with the scalar ones for every length and in place") {
  for (int64_t n = 0; n < 70; ++n) {
    std::vector<float> x(n), y(n);
    for (int64_t i = 0; i < n; ++i) x[i] = 0.37f * static_cast<float>(i) - 9.0f;
    const std::vector<float> in = x;
    VectorExp(x.data(), y.data(), n);
    VectorExp(x.data(), x.data(), n);
    CHECK(x == y);
    for (int64_t i = 0; i < n; ++i) REQUIRE(y[i] == Approx(std::exp(in[i])).epsilon(1e-6));
    VectorLog(y.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i) REQUIRE(y[i] == Approx(in[i]).margin(2e-6));
  }
}

TEST_CASE("Philox gives the published numbers") {
  // Known answers of the authors' Random123 for philox4x32-10.
  const PhiloxBlock zeros = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  CHECK(Philox(0, 0, 0) == zeros);
  const PhiloxBlock ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  CHECK(Philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) == ones);
}

}  // namespace
}  // namespace coxswain::kernels
