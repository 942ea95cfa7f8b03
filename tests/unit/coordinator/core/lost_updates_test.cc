// Updates that are lost with their shards, counted in turns.
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <tuple>

#include "coordinator/core/lost_updates.h"

namespace coxswain::core {
namespace {

ClosureLog::Entry Entry(PlanId plan, uint32_t steps = 1) {
  ClosureLog::Entry entry;
  entry.spec.plan = plan;
  entry.spec.steps = steps;
  return entry;
}

// Plan p updates shards 1..p, shard 1 twice.
std::vector<uint32_t> KeysOf(PlanId plan, ShardId shard) {
  if (shard.number() > plan.number()) return {};
  return shard == 1 ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{0};
}

int64_t CountAll(LostUpdates* lost, const ClosureLog& log, int64_t most = 1 << 20) {
  while (!lost->Count(log, most)) {
  }
  const int64_t count = lost->lost();
  lost->Commit(log);
  return count;
}

TEST_CASE("lost is what the checkpoint's ledger lacks, once", "[lost_updates]") {
  ClosureLog log(1000, 1000);
  for (ClosureId id = 1; id <= 10; ++id) log.Add(id, Entry(2));
  LostUpdates lost;
  lost.Begin({{1, "4 5:0/0,0/1 7:0/1"}, {3, ""}}, 3, KeysOf);
  CHECK(CountAll(&lost, log) == 2 * 7 - 3);  // of shard 3 there are none
  lost.Begin({{1, "4 5:0/0,0/1 7:0/1"}}, 3, KeysOf);
  CHECK(CountAll(&lost, log) == 0);
  // The checkpoint is bad, the one before has less.
  lost.Begin({{1, "4"}}, 3, KeysOf);
  CHECK(CountAll(&lost, log) == 3);
  log.Add(11, Entry(2, /*steps=*/3));
  lost.Begin({{1, "4"}, {2, "4"}}, 3, KeysOf);
  CHECK(CountAll(&lost, log) == 6 + 7 + 3);
  // What was given up counts anew.
  lost.Begin({{2, "4"}}, 1, KeysOf);
  CHECK_FALSE(lost.Count(log, 1));
  lost.Begin({{2, "4"}}, 1, KeysOf);
  CHECK(CountAll(&lost, log) == 0);
}

// As it was done before: every update by itself, in a set.
TEST_CASE("whatever is lost in turns of whatever length is what a plain count gives",
          "[lost_updates]") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&random](unsigned n) { return random() % n; };
    ClosureLog log(1000, 1000);
    LostUpdates lost;
    std::set<std::tuple<ClosureId, ShardId, uint32_t, uint32_t>> plain;
    ClosureId next = 1;
    for (int loss = 0; loss < 6; ++loss) {
      for (unsigned n = below(30); n > 0; --n) {
        // Now and then one that is older than others ends after them.
        const ClosureId id = next++ + below(2) * 3;
        if (log.entries().count(id) == 0) {
          log.Add(id, Entry(1 + below(3), 1 + static_cast<uint32_t>(below(3))));
        }
      }
      const ClosureId first = 1 + below(static_cast<unsigned>(next));
      if (below(3) == 0) {
        log.Trim(first);
        lost.Trim(first);
      }
      std::vector<LostUpdates::Shard> shards;
      size_t wanted = 0;
      for (ShardId shard = 1; shard <= 3; ++shard) {
        if (below(2) == 0) continue;
        checkpoint::Ledger ledger;
        ledger.SetLowWater(first + below(4));
        for (int i = 0; i < 10; ++i) {
          ledger.Insert(first + below(30), below(2), below(2));
        }
        shards.push_back({shard, ledger.Serialize()});
        for (const auto& [id, entry] : log.entries()) {
          if (id < first) continue;
          for (uint32_t key : KeysOf(entry.spec.plan, shard)) {
            for (uint32_t step = 0; step < entry.spec.steps; ++step) {
              if (ledger.Contains(id, step, key)) continue;
              wanted += plain.insert({id, shard, step, key}).second;
            }
          }
        }
      }
      lost.Begin(shards, first, KeysOf);
      CHECK(CountAll(&lost, log, 1 + below(20)) == static_cast<int64_t>(wanted));
    }
  }
}

TEST_CASE("no turn looks at many more updates than it is given", "[lost_updates]") {
  constexpr int64_t kClosures = 3000, kMost = 500;
  ClosureLog log(1 << 20, 1 << 20);
  for (ClosureId id = 1; id <= kClosures; ++id) log.Add(id, Entry(3));
  LostUpdates lost;
  lost.Begin({{1, ""}, {2, ""}, {3, ""}}, 1, KeysOf);
  int64_t turns = 1, before = 0;
  for (; !lost.Count(log, kMost); ++turns) {
    CHECK(lost.lost() - before <= kMost + 2);
    before = lost.lost();
  }
  CHECK(lost.lost() == 4 * kClosures);
  CHECK(turns >= 7 * kClosures / (kMost + 3));
}

TEST_CASE("a log forgets much in several turns, and none of what it forgot is seen", "[recovery]") {
  constexpr ClosureId kMany = 100000;
  ClosureLog log(1 << 20, 1 << 20);
  for (ClosureId id = 1; id <= kMany; ++id) log.Add(id, Entry(1));
  log.Trim(kMany - 9);
  CHECK(log.size() > 1000);  // not all of it at once
  CHECK_FALSE(log.Covers(kMany - 10));
  CHECK(log.Covers(kMany - 9));
  CHECK(log.Take(1, kMany - 5).size() == 4);
  for (int i = 0; i < 10; ++i) log.Trim(1);
  CHECK(log.size() == 6);
  log.Add(5, Entry(1));  // too old
  CHECK(log.size() == 6);
}

}  // namespace
}  // namespace coxswain::core
