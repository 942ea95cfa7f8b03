// Rows of a hash table that go on from how they were used in another one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "ps_server/shard.h"
#include "runtime/cluster/control.h"
#include "runtime/env/file_system.h"
#include "tests/testing/data_files.h"
#include "tests/testing/hash_shards.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using cluster::kUses;
using Kind = graph::Update::Kind;
using testing::Apply;
using testing::Ids;
using testing::MakeHash;
using testing::UpdateOf;
using testing::ValuesOf;

void Step(Shard* shard, const std::vector<int64_t>& ids, const UpdateTime& time = {}) {
  Tensor ones(DType::kF32, Shape{static_cast<int64_t>(ids.size()), 2});
  std::fill_n(ones.mutable_data<float>(), ones.num_elements(), 1.0f);
  Apply(shard, UpdateOf(Kind::kSparse, 1, ones, Ids(ids)), time);
}

std::set<int64_t> IdsIn(const Shard& shard) {
  const std::vector<int64_t> ids = ValuesOf<int64_t>(shard.ReadIds(0, shard.rows()).value().ids);
  return {ids.begin(), ids.end()};
}

// A new table with the rows of another one, and what is known of their use.
std::unique_ptr<Shard> GoOnFrom(const Shard& old, const proto::HashTableSpec& hash,
                                const std::string& optimizer = "sgd") {
  auto shard = MakeHash(2, hash, optimizer);
  const auto rows = old.ReadIds(0, old.rows()).value(),
             uses = old.ReadIds(0, old.rows(), kUses).value();
  CHECK(ValuesOf<int64_t>(rows.ids) == ValuesOf<int64_t>(uses.ids));
  REQUIRE(shard->WriteIds(rows.ids, rows.rows).ok());
  REQUIRE(shard->WritePartOfIds(uses.ids, uses.rows, kUses).ok());
  return shard;
}

std::vector<int64_t> UseOf(const Shard& shard, int64_t id) {
  const auto uses = shard.ReadIds(0, shard.rows(), kUses).value();
  const std::vector<int64_t> ids = ValuesOf<int64_t>(uses.ids), all = ValuesOf<int64_t>(uses.rows);
  const auto at = std::find(ids.begin(), ids.end(), id) - ids.begin();
  REQUIRE(at < std::ssize(ids));
  return {all.begin() + 3 * at, all.begin() + 3 * at + 3};
}

TEST_CASE("hash table: how rows were used is told by updates, and by time where that decides") {
  proto::HashTableSpec spec;
  spec.set_ttl_seconds(64);
  auto shard = MakeHash(2, spec);
  Step(shard.get(), {1, 2}, {1, 0, 100});
  Step(shard.get(), {1}, {1, 0, 110});
  Step(shard.get(), {3}, {1, 0, 116});
  CHECK(UseOf(*shard, 1) == std::vector<int64_t>{2, 1, 6'000'000});
  CHECK(UseOf(*shard, 2) == std::vector<int64_t>{1, 2, 16'000'000});
  CHECK(UseOf(*shard, 3) == std::vector<int64_t>{1, 0, 0});
  spec.set_ttl_seconds(0);
  spec.set_ttl_steps(5);
  shard = MakeHash(2, spec);
  Step(shard.get(), {1});
  Step(shard.get(), {2});
  CHECK(UseOf(*shard, 1) == std::vector<int64_t>{1, 1, 0});
}

TEST_CASE("hash table: ttl_steps count on in a table that goes on from another") {
  // adam moves all rows, and keeps which were used apart from that.
  const std::string optimizer = GENERATE("sgd", "adam");
  CAPTURE(optimizer);
  proto::HashTableSpec spec;
  spec.set_ttl_steps(10);
  auto old = MakeHash(2, spec, optimizer);
  Step(old.get(), {1, 2, 3});
  for (int i = 0; i < 4; ++i) Step(old.get(), {2});
  Step(old.get(), {3});
  auto shard = GoOnFrom(*old, spec, optimizer);
  CHECK(IdsIn(*shard) == std::set<int64_t>{1, 2, 3});
  CHECK(UseOf(*shard, 1) == std::vector<int64_t>{1, 5, 0});
  CHECK(UseOf(*shard, 2) == std::vector<int64_t>{5, 1, 0});
  // The tenth update after theirs evicts the rows in both.
  for (int i = 0; i < 12; ++i) {
    Step(old.get(), {7});
    Step(shard.get(), {7});
    CAPTURE(i);
    CHECK(IdsIn(*shard) == IdsIn(*old));
  }
  CHECK(IdsIn(*shard) == std::set<int64_t>{7});
  CHECK(shard->hash()->evicted() == 3);
}

TEST_CASE("hash table: ttl_seconds count on in a table that goes on from another, to a 64th") {
  proto::HashTableSpec spec;
  spec.set_ttl_seconds(64);
  auto old = MakeHash(2, spec);
  double now = 1000;
  Step(old.get(), {1, 2}, {1, 0, now});
  while (now < 1030) Step(old.get(), {2}, {1, 0, now += 1});
  // It lies there for a day, which does not count.
  auto shard = GoOnFrom(*old, spec);
  now += 86400;
  const double begin = now;
  Step(shard.get(), {2}, {1, 0, now});
  while (now < begin + 32) Step(shard.get(), {2}, {1, 0, now += 1});
  CHECK(IdsIn(*shard) == std::set<int64_t>{1, 2});
  while (now < begin + 37) Step(shard.get(), {2}, {1, 0, now += 1});
  CHECK(IdsIn(*shard) == std::set<int64_t>{2});
}

TEST_CASE("hash table: idle time adds up over many tables that live for a moment each") {
  proto::HashTableSpec spec;
  spec.set_ttl_seconds(6400);  // to 100 s
  auto shard = MakeHash(2, spec);
  Step(shard.get(), {1}, {1, 0, 0});
  // Each lives for 60 s, in which the first id is not used.
  int tables = 0;
  for (; tables < 200 && IdsIn(*shard).count(1) > 0; ++tables) {
    shard = GoOnFrom(*shard, spec);
    for (double now = 0; now <= 60; now += 20) Step(shard.get(), {2}, {1, 0, now});
  }
  CHECK(tables >= 6400 / 60);
  CHECK(tables <= (6400 + 200) / 60 + 1);
}

TEST_CASE("hash table: a table that went on from another goes on after a restore, bit for bit") {
  DataFiles files;
  proto::HashTableSpec spec;
  spec.set_ttl_steps(60);
  auto old = MakeHash(2, spec);
  for (int64_t step = 0; step < 50; ++step) Step(old.get(), {step, step + 1000, step + 2000});
  auto shard = GoOnFrom(*old, spec);
  int64_t step = 0;
  // The oldest rows are gone by then, and none has expired since.
  for (; step < 30; ++step) Step(shard.get(), {step + 3000});
  const proto::SavedShard saved =
      testing::SaveShard(*shard, *shard->Snapshot(), files.Write("shard", ""));
  absl::StatusOr<LoadedShard> loaded = LoadShard(env::NewRealFileSystem().get(), saved);
  INFO(loaded.status().ToString());
  REQUIRE(loaded.ok());
  Shard* const restored = loaded->shard.get();
  for (; step < 120; ++step) {
    Step(shard.get(), {step + 3000});
    Step(restored, {step + 3000});
    REQUIRE(testing::BytesOf(*restored->Snapshot()) == testing::BytesOf(*shard->Snapshot()));
  }
}

TEST_CASE("hash table: rows that were used often stay often used in a table that goes on") {
  proto::HashTableSpec spec;
  spec.set_max_rows(50);
  spec.set_evict("frequency");
  auto old = MakeHash(2, spec);
  std::vector<int64_t> often;
  for (int64_t id = 0; id < 20; ++id) often.push_back(id);
  for (int i = 0; i < 5; ++i) Step(old.get(), often);
  auto shard = GoOnFrom(*old, spec);
  for (int64_t id = 100; id < 400; ++id) Step(shard.get(), {id});
  const std::set<int64_t> left = IdsIn(*shard);
  CHECK(left.size() == 50);
  // A sample of rows decides who goes: one that was used once is nearly always in it.
  CHECK(std::count_if(often.begin(), often.end(), [&](int64_t id) { return left.count(id); }) >=
        15);
}

TEST_CASE("hash table: uses that cannot be are refused, as are those of rows that were updated") {
  proto::HashTableSpec spec;
  spec.set_ttl_steps(10);
  auto shard = MakeHash(2, spec);
  Tensor rows(DType::kF32, Shape{1, 2});
  std::fill_n(rows.mutable_data<float>(), 2, 1.0f);
  REQUIRE(shard->WriteIds(Ids({5}), rows).ok());
  const auto write = [&](std::vector<int64_t> use, int64_t id = 5) {
    const Tensor uses = Tensor::FromVector(use, Shape{1, static_cast<int64_t>(use.size())}).value();
    return shard->WritePartOfIds(Ids({id}), uses, kUses);
  };
  for (const std::vector<int64_t>& bad : std::vector<std::vector<int64_t>>{
           {0, 1, 0}, {-1, 1, 0}, {int64_t{1} << 40, 1, 0}, {1, -1, 0}, {1, 1, -1}, {1, 1}}) {
    const absl::Status refused = write(bad);
    CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK_THAT(std::string(write({1, 1, 0}, 6).message()), Contains("id 6 has no row"));
  CHECK(UseOf(*shard, 5) == std::vector<int64_t>{1, 0, 0});
  CHECK(write({3, 4, 0}).ok());
  CHECK(UseOf(*shard, 5) == std::vector<int64_t>{3, 4, 0});
  Step(shard.get(), {5});
  CHECK_THAT(std::string(write({1, 1, 0}).message()), Contains("rows that were updated"));
}

}  // namespace
}  // namespace coxswain::ps
