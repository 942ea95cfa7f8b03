#include "runtime/checkpoint/ledger.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <tuple>

namespace coxswain::checkpoint {

TEST_CASE("a ledger takes an update once, told apart by closure, step and key") {
  Ledger ledger;
  CHECK(ledger.Insert(5, 0, 0));
  CHECK_FALSE(ledger.Insert(5, 0, 0));
  CHECK(ledger.Insert(5, 0, 1));
  CHECK(ledger.Insert(5, 1, 0));
  CHECK(ledger.Insert(6, 0, 0));
  CHECK_FALSE(ledger.Insert(5, 1, 0));
  CHECK(ledger.Contains(5, 0, 1));
  CHECK_FALSE(ledger.Contains(5, 1, 1));
  CHECK_FALSE(ledger.Contains(7, 0, 0));
  CHECK(ledger.size() == 4);
}

TEST_CASE("below the low-water mark everything is a duplicate, and nothing is kept") {
  Ledger ledger;
  for (ClosureId closure = 1; closure <= 100; ++closure) {
    CHECK(ledger.Insert(closure, 0, 0));
    CHECK(ledger.Insert(closure, 1, 0));
  }
  ledger.SetLowWater(3);
  CHECK(ledger.size() == 196);
  ledger.SetLowWater(91);
  CHECK(ledger.size() == 20);
  CHECK(ledger.Contains(90, 7, 7));
  CHECK_FALSE(ledger.Insert(90, 7, 7));
  CHECK_FALSE(ledger.Contains(91, 7, 7));
  CHECK(ledger.Contains(91, 1, 0));
  ledger.SetLowWater(50);  // a late message: the mark does not go back
  CHECK(ledger.low_water() == 91);
  CHECK_FALSE(ledger.Insert(60, 0, 0));
  ledger.SetLowWater(uint64_t{1} << 60);
  CHECK(ledger.size() == 0);
  ledger.Clear();
  CHECK(ledger.Insert(1, 0, 0));
}

TEST_CASE("a ledger agrees with a plain set under random use") {
  std::mt19937_64 random(11);
  Ledger ledger;
  std::set<std::tuple<uint64_t, uint32_t, uint32_t>> plain;
  uint64_t low = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t closure = low + random() % 40 - std::min<uint64_t>(low, 5);
    const uint32_t step = random() % 4, key = random() % 2;
    const bool known = closure < low || plain.count({closure, step, key}) > 0;
    CHECK(ledger.Contains(closure, step, key) == known);
    CHECK(ledger.Insert(closure, step, key) == !known);
    if (!known) plain.insert({closure, step, key});
    if (random() % 50 == 0) {
      low += random() % 60;
      ledger.SetLowWater(low);
      plain.erase(plain.begin(), plain.lower_bound({low, 0, 0}));
    }
    REQUIRE(ledger.size() == static_cast<int64_t>(plain.size()));
  }
}

TEST_CASE("a ledger survives its text") {
  Ledger ledger;
  ledger.SetLowWater(17);
  CHECK(ledger.Serialize() == "17");
  ledger.Insert(20, 1, 0);
  ledger.Insert(18, 0, 3);
  ledger.Insert(20, 0, 0);
  ledger.Insert(~uint64_t{0}, ~uint32_t{0}, ~uint32_t{0});
  const std::string text = ledger.Serialize();
  CHECK(text == "17 18:0/3 20:0/0,1/0 18446744073709551615:4294967295/4294967295");
  const Ledger copy = Ledger::Parse(text).value();
  CHECK(copy == ledger);
  CHECK(copy.size() == 4);
  CHECK(copy.low_water() == 17);
}

TEST_CASE("a ledger's malformed text is an error, not a smaller ledger") {
  for (const char* text : {"",
                           " ",
                           "x",
                           "-1",
                           "+1",
                           "1 ",
                           "1 2",
                           "1 2:",
                           "1 2:0",
                           "1 2:0/",
                           "1 2:0/0,",
                           "1 2:0/0 ",
                           "1 2:0/0,0/0",
                           "1 2:0/0 2:0/0",
                           "5 4:0/0",
                           "1 2:4294967296/0",
                           "1 2:0/0/0",
                           "18446744073709551616",
                           "1 2:0/ 0",
                           "1 x:0/0"}) {
    INFO("'" << text << "'");
    const absl::StatusOr<Ledger> ledger = Ledger::Parse(text);
    CHECK(ledger.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace coxswain::checkpoint
