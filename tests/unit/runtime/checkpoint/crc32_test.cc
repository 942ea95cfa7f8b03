// The checksum of files is zlib's, however it is reckoned.
#include "runtime/checkpoint/crc32.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

namespace coxswain::checkpoint {
namespace {

TEST_CASE("a checksum is zlib's, from any byte on, of any length and after any other",
          "[checkpoint]") {
  std::mt19937_64 random(1);
  std::vector<unsigned char> data(1 << 16);
  for (unsigned char& byte : data) byte = static_cast<unsigned char>(random());
  CHECK(Crc32(0, "123456789", 9) == 0xcbf43926);
  CHECK(Crc32(7, nullptr, 0) == 7);
  for (int i = 0; i < 3000; ++i) {
    const size_t begin = random() % 200, n = random() % (i % 10 == 0 ? 65000 : 600);
    const auto before = static_cast<uint32_t>(i % 3 == 0 ? 0 : random());
    const auto wanted = static_cast<uint32_t>(crc32_z(before, data.data() + begin, n));
    CAPTURE(begin, n, before);
    REQUIRE(Crc32(before, data.data() + begin, n) == wanted);
  }
}

}  // namespace
}  // namespace coxswain::checkpoint
