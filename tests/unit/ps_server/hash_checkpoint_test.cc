// Hash tables in snapshots and checkpoint files.
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/env/roots.h"
#include "tests/testing/data_files.h"
#include "tests/testing/forwarding.h"
#include "tests/testing/hash_shards.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using testing::BytesOf;
using testing::Make;
using testing::MakeHash;
using testing::SaveShard;
using testing::StepOfHashTable;

std::vector<std::pair<proto::HashTableSpec, std::string>> KindsAndOptimizers() {
  std::vector<std::pair<proto::HashTableSpec, std::string>> all;
  for (const char* optimizer : {"adagrad", "adam"}) {  // the latter changes all rows
    for (const proto::HashTableSpec& kind : testing::KindsOfHashTables())
      all.emplace_back(kind, optimizer);
  }
  return all;
}

TEST_CASE("hash table: a snapshot stays as it was while rows come, change and go") {
  for (const auto& [kind, optimizer] : KindsAndOptimizers()) {
    CAPTURE(kind.ShortDebugString(), optimizer);
    auto shard = MakeHash(3, kind, optimizer);
    uint64_t number = 0;
    for (; number < 60; ++number) StepOfHashTable(shard.get(), number);
    const auto first = shard->Snapshot();
    const auto before = BytesOf(*first);
    for (; number < 75; ++number) StepOfHashTable(shard.get(), number);
    const auto second = shard->Snapshot();
    const auto between = BytesOf(*second);
    for (; number < 160; ++number) StepOfHashTable(shard.get(), number);
    CHECK(BytesOf(*first) == before);
    CHECK(BytesOf(*second) == between);
    CHECK(before != between);
    CHECK(first->rows() <= second->rows());
  }
}

TEST_CASE("hash table: a shard that was restored goes on as the one that was saved, bit for bit") {
  DataFiles files;
  for (const auto& [kind, optimizer] : KindsAndOptimizers()) {
    CAPTURE(kind.ShortDebugString(), optimizer);
    auto shard = MakeHash(3, kind, optimizer);
    uint64_t number = 0;
    for (; number < 90; ++number) StepOfHashTable(shard.get(), number);
    const auto snapshot = shard->Snapshot();
    const proto::SavedShard saved = SaveShard(*shard, *snapshot, files.Write("shard", ""));
    absl::StatusOr<LoadedShard> loaded = LoadShard(env::NewRealFileSystem().get(), saved);
    INFO(loaded.status().ToString());
    REQUIRE(loaded.ok());
    Shard* restored = loaded->shard.get();
    CHECK(BytesOf(*restored->Snapshot()) == BytesOf(*snapshot));
    CHECK(restored->hash()->rows() == shard->hash()->rows());
    for (; number < 200; ++number) {
      StepOfHashTable(shard.get(), number);
      StepOfHashTable(restored, number);
    }
    CHECK(BytesOf(*restored->Snapshot()) == BytesOf(*shard->Snapshot()));
    CHECK(restored->hash()->evicted() == shard->hash()->evicted());
    const bool evicts = kind.max_rows() + kind.ttl_steps() > 0;
    CHECK((restored->hash()->evicted() > 100) == evicts);
  }
}

// Else an older checkpoint would be tried, which this task cannot read either, and whole ones would
// be called damaged.
TEST_CASE("hash table: the time that a checkpoint lies there is not part of ttl_seconds") {
  DataFiles files;
  proto::HashTableSpec kind;
  kind.set_ttl_seconds(100);
  auto shard = MakeHash(3, kind, "adagrad");
  const auto step = [](Shard* s, int64_t id, double seconds) {
    Tensor ones(DType::kF32, Shape{1, 3});
    std::fill_n(ones.mutable_data<float>(), 3, 1.0f);
    testing::Apply(s, testing::UpdateOf(graph::Update::Kind::kSparse, 1, ones, testing::Ids({id})),
                   {1, 0, seconds});
  };
  step(shard.get(), 1, 5000);
  step(shard.get(), 2, 5060);
  const proto::SavedShard saved = SaveShard(*shard, *shard->Snapshot(), files.Write("shard", ""));
  const auto clock = GENERATE(10.0, 1e9);  // of another process, behind or ahead
  CAPTURE(clock);
  absl::StatusOr<LoadedShard> loaded = LoadShard(env::NewRealFileSystem().get(), saved);
  REQUIRE(loaded.ok());
  Shard* restored = loaded->shard.get();
  step(restored, 3, clock);
  CHECK(restored->hash()->rows() == 3);
  step(restored, 3, clock + 35);
  CHECK(restored->hash()->rows() == 3);
  step(restored, 3, clock + 45);  // the first one is 105 s old now
  CHECK(restored->hash()->rows() == 2);
  step(restored, 3, clock + 105);
  CHECK(restored->hash()->rows() == 1);
}

TEST_CASE("a shard's file that its task may not read is not a damaged one") {
  DataFiles files;
  std::filesystem::create_directory(files.Path("root"));
  auto shard = MakeHash(3, {}, "adagrad");
  const proto::SavedShard saved = SaveShard(*shard, *shard->Snapshot(), files.Write("shard", ""));
  const auto roots = env::Roots::Make({files.Path("root")});
  REQUIRE(roots.ok());
  const auto rooted = env::NewRootedEnv(std::make_unique<testing::ForwardingEnv>(), *roots);
  const absl::Status refused = LoadShard(rooted->files(), saved).status();
  INFO(refused.ToString());
  CHECK(absl::IsPermissionDenied(refused));
  CHECK_THAT(std::string(refused.message()), Contains("--root"));
}

TEST_CASE("hash table: a file that contradicts itself is told, not loaded") {
  DataFiles files;
  proto::HashTableSpec kind;
  kind.set_max_rows(50);
  auto shard = MakeHash(3, kind, "adagrad");
  for (uint64_t number = 0; number < 40; ++number) StepOfHashTable(shard.get(), number);
  const proto::SavedShard saved = SaveShard(*shard, *shard->Snapshot(), files.Write("shard", ""));
  const auto error = [&](auto change) {
    proto::SavedShard changed = saved;
    change(changed);
    const auto loaded = LoadShard(env::NewRealFileSystem().get(), changed);
    REQUIRE_FALSE(loaded.ok());
    return std::string(loaded.status().message());
  };
  using Saved = proto::SavedShard;
  CHECK_THAT(error([](Saved& s) { s.mutable_hash()->set_places(s.hash().places() + 1); }),
             Contains("wanted tensor") && Contains("weights"));
  CHECK_THAT(error([](Saved& s) { s.mutable_hash()->set_places(-1); }), Contains("places"));
  CHECK_THAT(error([](Saved& s) { s.mutable_hash()->set_places(int64_t{1} << 60); }),
             Contains("places"));
  CHECK_THAT(error([](Saved& s) { s.mutable_hash()->set_first_free(-1); }),
             Contains("free places"));
  CHECK_THAT(error([](Saved& s) { s.mutable_hash()->set_hand(1 << 20); }), Contains("impossible"));
  CHECK_THAT(error([](Saved& s) { s.mutable_hash()->set_waiting(3); }), Contains("waiting_ids"));
  CHECK_THAT(error([](Saved& s) { s.clear_hash(); }), Contains("hash table"));
  // Of another shard of the same table.
  CHECK_THAT(error([](Saved& s) { s.mutable_shard()->set_count(2); }),
             Contains("belongs to shard"));
}

}  // namespace
}  // namespace coxswain::ps
