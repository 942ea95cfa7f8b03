// Hash tables in snapshots and checkpoint files.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/shard_file.h"
#include "ps_server/shard_snapshot.h"
#include "runtime/env/file_system.h"
#include "runtime/env/roots.h"
#include "tests/testing/data_files.h"
#include "tests/testing/forwarding.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using Kind = graph::Update::Kind;
using testing::Apply;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::UpdateOf;
using testing::ValuesOf;

std::unique_ptr<Shard> MakeHash(const proto::HashTableSpec& hash,
                                const std::string& optimizer = "adagrad") {
  return Make(HashShardsOf(HashTableOf("users", 3, OptimizerOf(optimizer), hash), 1)[0]);
}

// One of a sequence of steps in which ids come, wait, come back and go.
void Step(Shard* shard, uint64_t number) {
  std::mt19937_64 random(number);
  std::vector<int64_t> ids;
  for (int i = 0; i < 25; ++i) {
    ids.push_back(static_cast<int64_t>(random() % (i < 10 ? 60 : 3000)) - 500);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto n = static_cast<int64_t>(ids.size());
  Apply(shard, UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{n, 3}, number), Ids(ids)),
        {number, 0, 1.7e9 + static_cast<double>(number)});
}

// All parts of all places, and what there is beside them.
std::map<std::string, std::vector<char>> BytesOf(const ShardSnapshot& snapshot) {
  std::map<std::string, std::vector<char>> bytes;
  for (int t = 0; t < snapshot.tensors(); ++t) {
    std::vector<char>& tensor =
        bytes[t < snapshot.parts() ? snapshot.part(t).name : absl::StrCat("waiting", t)];
    tensor.resize(static_cast<size_t>(snapshot.tensor_bytes(t)));
    REQUIRE(snapshot.CopyBytes(0, snapshot.tensor_bytes(t), t, tensor.data()).ok());
  }
  const std::string state = snapshot.hash()->SerializeAsString();
  bytes["state"].assign(state.begin(), state.end());
  return bytes;
}

std::vector<proto::HashTableSpec> Kinds() {
  std::vector<proto::HashTableSpec> kinds(5);
  kinds[1].set_min_count(2);
  kinds[2].set_admission_probability(0.3);
  kinds[2].set_ttl_steps(30);
  kinds[3].set_min_count(2);
  kinds[3].set_max_rows(70);
  kinds[3].set_evict("frequency");
  kinds[4].set_ttl_seconds(40);
  kinds[4].set_max_rows(150);
  return kinds;
}

std::vector<std::pair<proto::HashTableSpec, std::string>> KindsAndOptimizers() {
  std::vector<std::pair<proto::HashTableSpec, std::string>> all;
  for (const char* optimizer : {"adagrad", "adam"}) {  // the latter changes all rows
    for (const proto::HashTableSpec& kind : Kinds()) all.emplace_back(kind, optimizer);
  }
  return all;
}

// As ShardSaver writes it.
proto::SavedShard Save(const Shard& shard, const ShardSnapshot& snapshot, const std::string& path) {
  const auto files = env::NewRealFileSystem();
  auto writer = checkpoint::SafetensorsWriter::Create(files.get(), path,
                                                      ShardFileEntries(shard, snapshot.hash()), {});
  REQUIRE(writer.ok());
  for (int t = 0; t < snapshot.tensors(); ++t) {
    std::vector<char> bytes(static_cast<size_t>(snapshot.tensor_bytes(t)));
    REQUIRE(snapshot.CopyBytes(0, snapshot.tensor_bytes(t), t, bytes.data()).ok());
    REQUIRE((*writer)->Append(bytes.data(), bytes.size()).ok());
  }
  REQUIRE((*writer)->Finish().ok());
  proto::SavedShard saved;
  *saved.mutable_shard() = shard.spec();
  saved.set_file(path);
  saved.set_bytes((*writer)->bytes());
  saved.set_crc32((*writer)->crc32());
  saved.set_ledger("0");
  saved.set_applied(snapshot.applied());
  saved.set_gradient_steps(snapshot.gradient_steps());
  *saved.mutable_hash() = *snapshot.hash();
  return saved;
}

TEST_CASE("hash table: a snapshot stays as it was while rows come, change and go") {
  for (const auto& [kind, optimizer] : KindsAndOptimizers()) {
    CAPTURE(kind.ShortDebugString(), optimizer);
    auto shard = MakeHash(kind, optimizer);
    uint64_t number = 0;
    for (; number < 60; ++number) Step(shard.get(), number);
    const auto first = shard->Snapshot();
    const auto before = BytesOf(*first);
    for (; number < 75; ++number) Step(shard.get(), number);
    const auto second = shard->Snapshot();
    const auto between = BytesOf(*second);
    for (; number < 160; ++number) Step(shard.get(), number);
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
    auto shard = MakeHash(kind, optimizer);
    uint64_t number = 0;
    for (; number < 90; ++number) Step(shard.get(), number);
    const auto snapshot = shard->Snapshot();
    const proto::SavedShard saved = Save(*shard, *snapshot, files.Write("shard", ""));
    absl::StatusOr<LoadedShard> loaded = LoadShard(env::NewRealFileSystem().get(), saved);
    INFO(loaded.status().ToString());
    REQUIRE(loaded.ok());
    Shard* restored = loaded->shard.get();
    CHECK(BytesOf(*restored->Snapshot()) == BytesOf(*snapshot));
    CHECK(restored->hash()->rows() == shard->hash()->rows());
    for (; number < 200; ++number) {
      Step(shard.get(), number);
      Step(restored, number);
    }
    CHECK(BytesOf(*restored->Snapshot()) == BytesOf(*shard->Snapshot()));
    CHECK(restored->hash()->evicted() == shard->hash()->evicted());
    const bool evicts = kind.max_rows() + kind.ttl_steps() > 0;
    CHECK((restored->hash()->evicted() > 100) == evicts);
  }
}

// Else an older checkpoint would be tried, which this task cannot read either, and whole ones would
// be called damaged.
TEST_CASE("a shard's file that its task may not read is not a damaged one") {
  DataFiles files;
  std::filesystem::create_directory(files.Path("root"));
  auto shard = MakeHash({});
  const proto::SavedShard saved = Save(*shard, *shard->Snapshot(), files.Write("shard", ""));
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
  auto shard = MakeHash(kind);
  for (uint64_t number = 0; number < 40; ++number) Step(shard.get(), number);
  const proto::SavedShard saved = Save(*shard, *shard->Snapshot(), files.Write("shard", ""));
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
