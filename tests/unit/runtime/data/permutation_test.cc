#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/permutation.h"

namespace coxswain::data {
namespace {

// Pearson's statistic against equal counts; its mean is the degrees of freedom, its variance twice
// that. True when within 5 standard deviations.
bool LooksUniform(const std::vector<int64_t>& counts, double degrees) {
  double total = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  double statistic = 0;
  for (const int64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    statistic += off * off / expected;
  }
  INFO("chi-square " << statistic << " with " << degrees << " degrees of freedom");
  return std::fabs(statistic - degrees) < 5 * std::sqrt(2 * degrees);
}

TEST_CASE("permutation: every size gives each index once") {
  for (const uint64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100, 1000, 1023, 1025, 65537}) {
    for (const uint64_t key : {0, 1, 99}) {
      const Permutation order(size, key);
      std::vector<bool> seen(size, false);
      for (uint64_t i = 0; i < size; ++i) {
        const uint64_t image = order(i);
        REQUIRE(image < size);
        REQUIRE_FALSE(seen[image]);
        seen[image] = true;
      }
    }
  }
}

TEST_CASE("permutation: many positions at a time are sent where each is sent") {
  for (const uint64_t size : {1, 2, 3, 7, 33, 1000, 1023, 1025, 65537}) {
    const Permutation order(size, 5);
    for (const uint64_t first : {uint64_t{0}, size / 3, size - 1}) {
      std::vector<uint64_t> many(size - first);
      order.Map(first, absl::MakeSpan(many));
      for (uint64_t i = first; i < size; ++i) REQUIRE(many[i - first] == order(i));
    }
  }
}

TEST_CASE("permutation: huge ranges stay in range") {
  for (const uint64_t size : {uint64_t{1} << 40, (uint64_t{1} << 40) + 1, uint64_t{4000000007u}}) {
    const Permutation order(size, 5);
    std::set<uint64_t> seen;
    for (uint64_t i = size - 1000; i < size; ++i) {
      REQUIRE(order(i) < size);
      seen.insert(order(i));
    }
    CHECK(seen.size() == 1000);
  }
}

TEST_CASE("permutation: over keys every index comes to every position equally often") {
  constexpr uint64_t kSize = 60;
  constexpr int kKeys = 6000;
  std::vector<int64_t> counts(kSize * kSize, 0);
  for (int key = 0; key < kKeys; ++key) {
    const Permutation order(kSize, HashPair(17, static_cast<uint64_t>(key)));
    for (uint64_t i = 0; i < kSize; ++i) ++counts[i * kSize + order(i)];
  }
  CHECK(LooksUniform(counts, (kSize - 1) * (kSize - 1)));
}

TEST_CASE("permutation: neighbours do not stay neighbours and all 120 orders of 5 occur") {
  constexpr uint64_t kSize = 64;
  std::vector<int64_t> differences(kSize - 1, 0);
  for (uint64_t key = 0; key < 4000; ++key) {
    const Permutation order(kSize, Mix64(key));
    for (uint64_t i = 0; i + 1 < kSize; ++i) {
      ++differences[(order(i + 1) + kSize - order(i)) % kSize - 1];
    }
  }
  CHECK(LooksUniform(differences, kSize - 2));
  std::set<std::string> orders;
  for (uint64_t key = 0; key < 2000; ++key) {
    const Permutation order(5, Mix64(key));
    orders.insert(absl::StrCat(order(0), order(1), order(2), order(3)));
  }
  CHECK(orders.size() == 120);
}

TEST_CASE("sample: distinct indices in range, as many as asked, for few and many") {
  for (const uint32_t population : {1u, 5u, 64u, 65u, 1000u, 8191u, 8192u, 8193u, 100000u}) {
    for (const uint32_t count : {0u, 1u, 4u, 63u, 64u, 65u, 900u}) {
      if (count > population) continue;
      for (uint64_t key = 0; key < 20; ++key) {
        std::set<uint32_t> seen;
        SampleIndices(Mix64(key), population, count, [&](uint32_t i) {
          REQUIRE(i < population);
          seen.insert(i);
        });
        REQUIRE(seen.size() == count);
      }
    }
  }
}

TEST_CASE("sample: every index is drawn equally often") {
  for (const uint32_t population : {100u, 9000u}) {
    for (const uint32_t count : {5u, population * 7 / 10}) {
      const int draws = population == 100u ? 20000 : 300000 / static_cast<int>(count);
      std::vector<int64_t> counts(population, 0);
      for (uint64_t key = 0; key < static_cast<uint64_t>(draws); ++key) {
        SampleIndices(HashPair(3, key), population, count, [&](uint32_t i) { ++counts[i]; });
      }
      // Draws without replacement vary less than the chi-square distribution by this factor.
      const double shrink = 1.0 - static_cast<double>(count) / population;
      const double expected = static_cast<double>(draws) * count / population;
      double statistic = 0;
      for (const int64_t n : counts) {
        statistic += (static_cast<double>(n) - expected) * (static_cast<double>(n) - expected) /
                     (expected * shrink);
      }
      INFO("population " << population << " count " << count << " statistic " << statistic);
      CHECK(std::fabs(statistic - population) < 5 * std::sqrt(2.0 * population));
    }
  }
}

TEST_CASE("hash: values are pinned, for data sets outlive releases") {
  CHECK(Mix64(0) == 0xe220a8397b1dcdafu);
  CHECK(HashText("") == HashText(absl::string_view()));
  CHECK(HashText("a") != HashText(absl::string_view("a\0", 2)));
  CHECK(HashText("coxswain") == 0x5fb775c41601b8eeu);
  CHECK(HashPair(1, 2) == 0x8d706d2a8ad38c43u);
  CHECK(HashPair(1, 2) != HashPair(2, 1));
  StreamHash whole;
  whole.Update("the quick brown fox jumps over the lazy dog, twice over");
  CHECK(whole.Finish() == 0xcf139726b7536450u);
  const Permutation order(10, 7);
  CHECK(absl::StrCat(order(0), order(1), order(2), order(3), order(4), order(5), order(6), order(7),
                     order(8), order(9)) == "3018679524");
}

TEST_CASE("hash: a stream's value does not depend on how it is cut") {
  std::string text;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&text, i * i, "/");
  StreamHash whole;
  whole.Update(text);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    StreamHash pieces;
    pieces.Update(absl::string_view(text).substr(0, cut));
    pieces.Update("");
    pieces.Update(absl::string_view(text).substr(cut));
    REQUIRE(pieces.Finish() == whole.Finish());
  }
}

}  // namespace
}  // namespace coxswain::data
