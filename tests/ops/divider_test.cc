// Division by a number that is not known before.
#include "kernels/cpu/divider.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>

namespace coxswain::kernels {
namespace {

TEST_CASE("products divide as division does, to the last of all numbers") {
  std::mt19937_64 random(1);
  bool good = true;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t divisor = i < 70 ? static_cast<uint64_t>(i) + 1 : (random() >> (i % 64)) | 1;
    const Divider divider(divisor);
    for (const uint64_t x : {uint64_t{0}, uint64_t{1}, divisor - 1, divisor, 2 * divisor - 1,
                             random(), random() >> 32, UINT64_MAX - 1, UINT64_MAX}) {
      uint64_t rest;
      good = good && divider.Divide(x, &rest) == x / divisor && rest == x % divisor;
    }
  }
  CHECK(good);
}

}  // namespace
}  // namespace coxswain::kernels
