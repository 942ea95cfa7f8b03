// Shards are placed so that bytes and access are even, and move only when that wins something.
#include "coordinator/core/placement.h"

#include <catch2/catch.hpp>
#include <random>

#include "coxswain/tensor.h"

namespace coxswain::core {
namespace {

PlacedShard ShardAt(ShardId id, double bytes, double access, int ps = -1) {
  return {id, {bytes, access, access}, ps};
}

struct Sums {
  std::map<int, double> bytes, access;
};
Sums SumsOf(const std::vector<PlacedShard>& shards) {
  Sums sums;
  for (const PlacedShard& s : shards) {
    sums.bytes[s.ps] += s.load.bytes;
    sums.access[s.ps] += s.load.access;
  }
  return sums;
}

void Apply(const std::map<ShardId, int>& moves, std::vector<PlacedShard>* shards) {
  for (PlacedShard& s : *shards) {
    if (const auto it = moves.find(s.id); it != moves.end()) s.ps = it->second;
  }
}

TEST_CASE("placement: shards of one size go around, also when some are placed already") {
  std::vector<PlacedShard> shards;
  for (ShardId id = 1; id <= 6; ++id) shards.push_back(ShardAt(id, 100, 0));
  PlaceShards({0, 1, 2}, &shards);
  for (ShardId id = 1; id <= 6; ++id) CHECK(shards[id - 1].ps == static_cast<int>((id - 1) % 3));
  // One more variable of a single large shard, then a small one.
  shards.push_back(ShardAt(7, 1000, 0));
  PlaceShards({0, 1, 2}, &shards);
  CHECK(shards[6].ps == 0);
  shards.push_back(ShardAt(8, 10, 0));
  PlaceShards({0, 1, 2}, &shards);
  CHECK(shards[7].ps == 1);
}

TEST_CASE("placement: a hot shard and the cold rest part, so that both scales are even") {
  // Each of 4 variables has one shard that is used and three that are not, all of one size.
  std::vector<PlacedShard> shards;
  for (ShardId id = 1; id <= 16; ++id) shards.push_back(ShardAt(id, 100, id % 4 == 1 ? 90 : 1));
  PlaceShards({0, 1, 2, 3}, &shards);
  const Sums sums = SumsOf(shards);
  for (int ps = 0; ps < 4; ++ps) {
    CHECK(sums.bytes.at(ps) == 400);
    CHECK(sums.access.at(ps) == 93);
  }
  CHECK(AccessPeak({0, 1, 2, 3}, shards) == Approx(1));
}

TEST_CASE("placement: what is on a PS stays, and what was on another one gets a place") {
  std::vector<PlacedShard> shards = {ShardAt(1, 100, 0, 0), ShardAt(2, 60, 0, 2),
                                     ShardAt(3, 50, 0, 1), ShardAt(4, 10, 0, 2)};
  PlaceShards({0, 1}, &shards);
  CHECK(shards[0].ps == 0);
  CHECK(shards[2].ps == 1);
  CHECK(shards[1].ps == 1);
  CHECK(shards[3].ps == 0);
}

TEST_CASE("placement: random loads end within the largest shard of even, the same each time") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<PlacedShard> shards;
    double largest = 0, total = 0;
    for (ShardId id = 1; id <= 60; ++id) {
      const double bytes = 1 + static_cast<double>(random() % 1000);
      shards.push_back(ShardAt(id, bytes, 0));
      largest = std::max(largest, bytes);
      total += bytes;
    }
    std::vector<PlacedShard> again = shards;
    PlaceShards({0, 1, 2, 3, 4}, &shards);
    PlaceShards({0, 1, 2, 3, 4}, &again);
    for (const auto& [ps, bytes] : SumsOf(shards).bytes) CHECK(bytes <= total / 5 + largest);
    for (size_t i = 0; i < shards.size(); ++i) CHECK(shards[i].ps == again[i].ps);
  }
}

TEST_CASE("balance: the hot shards of one PS spread, and bytes stay even") {
  BalanceRules rules;
  rules.min_rows = 1000;
  // PS 0 has all that is used.
  std::vector<PlacedShard> shards;
  for (ShardId id = 1; id <= 12; ++id) {
    shards.push_back(ShardAt(id, 100, id <= 4 ? 1000 : 10, static_cast<int>((id - 1) / 4)));
  }
  const std::set<int> there = {0, 1, 2};
  CHECK(AccessPeak(there, shards) > 2.5);
  const auto moves = ChooseMoves(there, shards, rules);
  REQUIRE_FALSE(moves.empty());
  Apply(moves, &shards);
  CHECK(AccessPeak(there, shards) < 1.5);  // 4 hot ones on 3 PS
  for (const auto& [ps, bytes] : SumsOf(shards).bytes) CHECK(std::abs(bytes - 400) <= 100);
  // Then all is as good as it gets: nothing moves to and fro.
  CHECK(ChooseMoves(there, shards, rules).empty());
}

TEST_CASE("balance: little counts, little to win and what cannot be parted move nothing") {
  BalanceRules rules;
  rules.min_rows = 1000;
  const std::set<int> there = {0, 1};
  // 1.2 times the mean.
  CHECK(ChooseMoves(there, {ShardAt(1, 10, 600, 0), ShardAt(2, 10, 600, 0), ShardAt(3, 10, 800, 1)},
                    rules)
            .empty());
  // Twice the mean, but of few rows.
  CHECK(ChooseMoves(there, {ShardAt(1, 10, 20, 0), ShardAt(2, 10, 20, 0), ShardAt(3, 10, 0, 1)},
                    rules)
            .empty());
  // One shard has it all.
  CHECK(ChooseMoves(there, {ShardAt(1, 10, 9000, 0), ShardAt(2, 10, 1, 1)}, rules).empty());
  CHECK(ChooseMoves({0}, {ShardAt(1, 10, 9000, 0), ShardAt(2, 10, 1, 0)}, rules).empty());
  CHECK(ChooseMoves(there, {}, rules).empty());
}

TEST_CASE("balance: a PS that holds nothing gets shards, by bytes where access is not known") {
  const BalanceRules rules;
  std::vector<PlacedShard> shards;
  for (ShardId id = 1; id <= 8; ++id) shards.push_back(ShardAt(id, 100, 0, id <= 4 ? 0 : 1));
  const std::set<int> there = {0, 1, 2};
  const auto moves = ChooseMoves(there, shards, rules);
  CHECK(moves.size() == 2);
  Apply(moves, &shards);
  const Sums sums = SumsOf(shards);
  CHECK(sums.bytes.at(0) == 300);
  CHECK(sums.bytes.at(1) == 300);
  CHECK(sums.bytes.at(2) == 200);
  // It has nothing to win from one that has a single shard.
  CHECK(ChooseMoves({0, 1}, {ShardAt(1, 100, 0, 0)}, rules).empty());
}

TEST_CASE("balance: no more shards move than the rules allow, and each at most once") {
  BalanceRules rules;
  rules.min_rows = 0;
  rules.most_moves = 3;
  rules.gain = 0;
  std::vector<PlacedShard> shards;
  for (ShardId id = 1; id <= 40; ++id) shards.push_back(ShardAt(id, 100, 10, 0));
  const auto moves = ChooseMoves({0, 1, 2, 3}, shards, rules);
  CHECK(moves.size() == 3);
  for (const auto& [id, ps] : moves) CHECK(ps != 0);
}

proto::SavedShard Saved(bool table, int64_t rows, uint64_t pulled, uint64_t pushed,
                        int64_t applied) {
  proto::SavedShard saved;
  proto::VariableSpec* variable = saved.mutable_shard()->mutable_variable();
  variable->set_dtype(static_cast<int>(DType::kF32));
  variable->set_table(table);
  variable->mutable_shape()->add_dims(100);
  variable->mutable_shape()->add_dims(8);
  saved.mutable_shard()->set_rows(rows);
  saved.set_rows_pulled(pulled);
  saved.set_rows_pushed(pushed);
  saved.set_applied(applied);
  return saved;
}

TEST_CASE("load: a table's access is the rows that were used, a variable's all rows each update") {
  const ShardLoad table = LoadOf(Saved(true, 50, 300, 200, 7));
  CHECK(table.bytes == 50 * 32);
  CHECK(table.rows == 500);
  CHECK(table.access == 500 * 32);
  const ShardLoad dense = LoadOf(Saved(false, 50, 0, 0, 7));
  CHECK(dense.access == 2 * 7 * 50 * 32);
  const ShardLoad since = LoadSince(Saved(true, 50, 300, 200, 7), Saved(true, 50, 100, 50, 2));
  CHECK(since.rows == 350);
  // A recovery took the counts back.
  CHECK(LoadSince(Saved(true, 50, 30, 20, 1), Saved(true, 50, 100, 50, 2)).rows == 50);
  proto::SavedShard hash = Saved(true, 0, 10, 10, 1);
  hash.mutable_shard()->mutable_variable()->mutable_hash()->set_max_rows(1000);
  hash.mutable_shard()->set_count(4);
  CHECK(LoadOf(hash.shard()).bytes == 251 * 32);
  hash.mutable_hash()->set_places(64);
  CHECK(LoadOf(hash).bytes == 64 * 32);
}

}  // namespace
}  // namespace coxswain::core
