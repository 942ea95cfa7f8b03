// Hash sharding of rows 0, 1, 2, ...: a permutation that is the same for ever and parts neighbours.
#include "runtime/base/row_mix.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace coxswain {
namespace {

TEST_CASE("row mix: each place has one row, and leads back to it") {
  for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 1023, 1025, 65537}) {
    const RowMix mix(rows);
    std::vector<bool> seen(static_cast<size_t>(rows), false);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t place = mix.Place(row);
      REQUIRE(place >= 0);
      REQUIRE(place < rows);
      REQUIRE_FALSE(seen[static_cast<size_t>(place)]);
      seen[static_cast<size_t>(place)] = true;
      REQUIRE(mix.Row(place) == row);
    }
  }
  for (const int64_t rows : {int64_t{1} << 40, (int64_t{1} << 40) + 1, int64_t{1} << 62}) {
    const RowMix mix(rows);
    for (int64_t row = 0; row < 1000; ++row) {
      REQUIRE(mix.Row(mix.Place(row)) == row);
      REQUIRE(mix.Place(mix.Row(rows - 1 - row)) == rows - 1 - row);
    }
  }
}

// Checkpoints and saved models depend on them; from the Python of the header.
TEST_CASE("row mix: places never change") {
  const std::vector<int64_t> ten = {6, 5, 3, 4, 1, 7, 9, 2, 0, 8};
  for (int64_t row = 0; row < 10; ++row) CHECK(RowMix(10).Place(row) == ten[row]);
  const RowMix million(1000003);
  CHECK(million.Place(0) == 639398);
  CHECK(million.Place(1) == 861923);
  CHECK(million.Place(2) == 388257);
  CHECK(million.Place(1000002) == 64874);
  const RowMix large(int64_t{1} << 40);
  CHECK(large.Place(0) == 598227222258);
  CHECK(large.Place(1) == 244055113865);
  CHECK(large.Place((int64_t{1} << 40) - 1) == 21193184997);
}

TEST_CASE("row mix: the rows of any short range are spread over shards as by chance") {
  for (const int64_t rows : {10000, 100000, 1 << 20, 1000003}) {
    const RowMix mix(rows);
    for (const int64_t shards : {2, 4, 7, 16}) {
      for (const int64_t step : {1, 2, 8}) {
        const int64_t n = 1000;
        std::vector<double> counts(static_cast<size_t>(shards), 0);
        for (int64_t i = 0; i < n; ++i) {
          ++counts[static_cast<size_t>(mix.Place(i * step) % shards)];
        }
        double statistic = 0;  // Pearson's
        const double expected = static_cast<double>(n) / static_cast<double>(shards);
        for (const double count : counts) {
          statistic += (count - expected) * (count - expected) / expected;
        }
        CAPTURE(rows, shards, step, statistic);
        const double degrees = static_cast<double>(shards - 1);
        CHECK(statistic < degrees + 5 * std::sqrt(2 * degrees));
      }
    }
  }
}

}  // namespace
}  // namespace coxswain
