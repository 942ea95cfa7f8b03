#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "coxswain/strategy.h"

namespace coxswain {
namespace {

int64_t Shards(const Partitioner& p, const Shape& shape, DType dtype = DType::kF32) {
  return p(dtype, shape);
}

// The examples of TensorFlow's own documentation.
TEST_CASE("partitioners give what TensorFlow's documentation shows", "[partitioner]") {
  CHECK(Shards(FixedShards(2), Shape{10, 3}) == 2);
  CHECK(Shards(MinSize(4, 2), Shape{6, 1}) == 2);
  CHECK(Shards(MinSize(4, 10), Shape{6, 1}) == 6);
  CHECK(Shards(MaxSize(4), Shape{6, 1}) == 6);
  CHECK(Shards(MaxSize(4, 2), Shape{6, 1}) == 2);
  CHECK(Shards(MaxSize(1024), Shape{6, 1}) == 1);
}

TEST_CASE("a fixed number of shards is cut down to one per row", "[partitioner]") {
  CHECK(Shards(FixedShards(5), Shape{3, 100}) == 3);
  CHECK(Shards(FixedShards(5), Shape{}) == 1);
  CHECK(Shards(FixedShards(5), Shape{0, 4}) == 1);
  CHECK(Shards(FixedShards(1), Shape{1000}) == 1);
  CHECK(Shards(FixedShards(0), Shape{10}) == 1);
  CHECK(Shards(FixedShards(-3), Shape{10}) == 1);
}

TEST_CASE("the default smallest shard has 256 KiB, and one shard is the default bound",
          "[partitioner]") {
  CHECK(Shards(MinSize(), Shape{1 << 20, 64}) == 1);
  CHECK(Shards(MinSize(256 << 10, 8), Shape{1024, 256}) == 4);  // 1 MiB
  CHECK(Shards(MinSize(256 << 10, 3), Shape{1024, 256}) == 3);
  CHECK(Shards(MinSize(256 << 10, 8), Shape{1024, 256}, DType::kF64) == 8);
  CHECK(Shards(MinSize(256 << 10, 8), Shape{10, 10}) == 1);
  CHECK(Shards(MinSize(0, 8), Shape{10, 10}) == 8);
  CHECK(Shards(MinSize(1, 0), Shape{10, 10}) == 1);
}

TEST_CASE("a row that is too large for a shard is not cut", "[partitioner]") {
  CHECK(Shards(MaxSize(100), Shape{5, 1000}) == 5);
  CHECK(Shards(MaxSize(1), Shape{}) == 1);
  CHECK(Shards(MaxSize(1 << 20), Shape{0, 4}) == 1);
}

TEST_CASE("shards by size keep their promise for every shape", "[partitioner]") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 3000; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(random() % 40);
    const int64_t dim = 1 + static_cast<int64_t>(random() % 9);
    const DType dtype = random() % 2 == 0 ? DType::kF32 : DType::kF64;
    const int64_t row_bytes = dim * static_cast<int64_t>(SizeOf(dtype));
    const int64_t bytes = 1 + static_cast<int64_t>(random() % 600);
    const int64_t bound = 1 + static_cast<int64_t>(random() % 12);
    INFO(rows << " rows of " << row_bytes << " bytes, " << bytes << " bytes, at most " << bound);
    const Shape shape{rows, dim};
    // Rows are spread evenly: the smallest shard has rows / n, the largest one more if need be.
    const int64_t min = Shards(MinSize(bytes, bound), shape, dtype);
    REQUIRE(min >= 1);
    REQUIRE(min <= std::min(rows, bound));
    if (min > 1) REQUIRE(rows / min * row_bytes >= bytes);
    if (min < std::min(rows, bound))
      REQUIRE(rows / (min + 1) * row_bytes < bytes);  // as many as can be
    const int64_t max = Shards(MaxSize(bytes), shape, dtype);
    REQUIRE(max >= 1);
    REQUIRE(max <= rows);
    const auto largest = [&](int64_t n) { return (rows + n - 1) / n * row_bytes; };
    if (max < rows) REQUIRE(largest(max) <= bytes);
    if (max > 1) REQUIRE(largest(max - 1) > bytes);  // as few as can be
    REQUIRE(Shards(MaxSize(bytes, bound), shape, dtype) == std::min(max, bound));
  }
}

}  // namespace
}  // namespace coxswain
