// The tiles of PairwiseDots against plain sums, at every level of vectors and for sizes around the
// tiles' own.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/pair_products.h"

namespace coxswain::kernels {
namespace {

std::vector<float> Random(int64_t count, std::mt19937_64* random) {
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = values(*random);
  return out;
}

// The largest difference between the tiles' numbers and plain sums; infinite when a number beside
// the output was touched.
double WorstError(SimdLevel level, int64_t vectors, int64_t width) {
  constexpr float kGuard = 12345;
  std::mt19937_64 random(static_cast<uint64_t>(vectors * 1000 + width));
  const int64_t pairs = vectors * (vectors - 1) / 2;
  const std::vector<float> x = Random(vectors * width, &random), g = Random(pairs, &random);
  std::vector<float> y(static_cast<size_t>(pairs + 1), kGuard);
  std::vector<float> dx(static_cast<size_t>(vectors * width + 1), kGuard);
  std::vector<float*> out;
  for (int64_t i = 0; i < vectors; ++i) out.push_back(dx.data() + i * width);
  RunSimdByLevel(level, [&](auto constant) COX_SIMD_BODY {
    PairScratch dots(vectors, width), grad(vectors, width);
    for (int64_t i = 0; i < vectors; ++i) dots.rows[i] = grad.rows[i] = x.data() + i * width;
    PairDots<decltype(constant)::value>(vectors, width, &dots, y.data());
    PairDotsGrad<decltype(constant)::value>(g.data(), vectors, width, 0, &grad, out.data());
  });
  if (y.back() != kGuard || dx.back() != kGuard) return INFINITY;
  std::vector<double> wanted(dx.size(), 0.0);
  double worst = 0;
  for (int64_t i = 1, at = 0; i < vectors; ++i) {
    for (int64_t j = 0; j < i; ++j, ++at) {
      double dot = 0;
      for (int64_t d = 0; d < width; ++d) {
        const double a = x[i * width + d], b = x[j * width + d];
        dot += a * b;
        wanted[i * width + d] += g[at] * b;
        wanted[j * width + d] += g[at] * a;
      }
      worst = std::max(worst, std::fabs(dot - static_cast<double>(y[at])));
    }
  }
  for (size_t i = 0; i + 1 < wanted.size(); ++i) {
    worst = std::max(worst, std::fabs(wanted[i] - static_cast<double>(dx[i])));
  }
  return worst;
}

TEST_CASE("products of pairs and their gradients are right for every size and level of vectors") {
  for (int level = 0; level <= static_cast<int>(CurrentSimd()); ++level) {
    for (const int64_t vectors : {1, 2, 3, 4, 7, 8, 9, 16, 17, 18, 27, 33, 34, 48, 49, 65, 97}) {
      for (const int64_t width : {1, 3, 4, 15, 16, 17, 63, 64, 65, 129}) {
        INFO("level " << level << ", " << vectors << " vectors of width " << width);
        CHECK(WorstError(static_cast<SimdLevel>(level), vectors, width) < 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::kernels
