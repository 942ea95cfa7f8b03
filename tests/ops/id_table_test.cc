// The table that numbers ids, and how long a large one keeps its memory.
#include "kernels/cpu/id_table.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace coxswain::kernels {
namespace {

constexpr int64_t kLarge = 300'000;  // twice: needs 2^21 slots

// Numbers `count` ids; whether each has the number of its first appearance.
bool Run(IdTable* table, int64_t count) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(i * 7);
  std::vector<int32_t> numbers(ids.size());
  table->Start(2 * count);
  bool good = true;
  for (int round = 0; round < 2; ++round) {
    table->Number(ids.data(), count, numbers.data());
    for (int64_t i = 0; i < count; ++i) good = good && numbers[i] == i;
  }
  good = good && table->ids() == absl::MakeConstSpan(ids);
  table->Finish();
  return good;
}

TEST_CASE("a large table of ids stays while large batches need it, and goes when 64 did not") {
  IdTable table;
  CHECK(Run(&table, kLarge));
  const size_t large = table.slots();
  CHECK(large >= 4 * kLarge);
  for (int i = 0; i < 63; ++i) REQUIRE(Run(&table, 10));
  CHECK(table.slots() == large);
  CHECK(Run(&table, kLarge));  // needed again
  CHECK(table.slots() == large);
  for (int i = 0; i < 63; ++i) REQUIRE(Run(&table, 10));
  CHECK(table.slots() == large);
  CHECK(Run(&table, 10));
  CHECK(table.slots() == 0);
  CHECK(Run(&table, 1000));
}

TEST_CASE("ids are numbered as they come, of whatever sign and however often") {
  std::mt19937_64 random(1);
  IdTable table;
  // Many runs, so that slots are full of earlier runs' numbers; few different ids, so that many
  // share a slot with others.
  for (int run = 0; run < 300; ++run) {
    const auto n = static_cast<int64_t>(random() % 3000);
    std::vector<int64_t> ids, wanted;
    std::vector<int32_t> numbers(static_cast<size_t>(n));
    std::map<int64_t, int32_t> known;
    bool good = true;
    for (int64_t i = 0; i < n; ++i) {
      const auto id = static_cast<int64_t>(random() % 700);
      ids.push_back(run % 3 == 0 ? id : (id - 350) * (int64_t{1} << 52));
    }
    table.Start(n);
    table.Number(ids.data(), n / 2, numbers.data());
    table.Number(ids.data() + n / 2, n - n / 2, numbers.data() + n / 2);
    for (int64_t i = 0; i < n; ++i) {
      const auto [at, is_new] = known.try_emplace(ids[i], static_cast<int32_t>(known.size()));
      if (is_new) wanted.push_back(ids[i]);
      good = good && numbers[i] == at->second;
    }
    CHECK(good);
    CHECK(table.ids() == absl::MakeConstSpan(wanted));
    table.Finish();
  }
}

TEST_CASE("a small table of ids stays") {
  IdTable table;
  CHECK(Run(&table, 1000));
  const size_t slots = table.slots();
  for (int i = 0; i < 100; ++i) REQUIRE(Run(&table, 1));
  CHECK(table.slots() == slots);
}

}  // namespace
}  // namespace coxswain::kernels
