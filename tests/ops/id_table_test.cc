// The table that numbers ids, and how long a large one keeps its memory.
#include "kernels/cpu/id_table.h"

#include <catch2/catch.hpp>

namespace coxswain::kernels {
namespace {

constexpr int64_t kLarge = 600'000;  // needs 2^21 slots

// Numbers `count` ids; whether each has the number of its first appearance.
bool Run(IdTable* table, int64_t count) {
  table->Start(count);
  bool good = true;
  for (int64_t i = 0; i < count; ++i) good = good && table->Number(i * 7) == i;
  for (int64_t i = 0; i < count; ++i) good = good && table->Number(i * 7) == i;
  table->Finish();
  return good;
}

TEST_CASE("a large table of ids stays while large batches need it, and goes when 64 did not") {
  IdTable table;
  CHECK(Run(&table, kLarge));
  const size_t large = table.slots();
  CHECK(large >= 2 * kLarge);
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

TEST_CASE("a small table of ids stays") {
  IdTable table;
  CHECK(Run(&table, 1000));
  const size_t slots = table.slots();
  for (int i = 0; i < 100; ++i) REQUIRE(Run(&table, 1));
  CHECK(table.slots() == slots);
}

}  // namespace
}  // namespace coxswain::kernels
