// A parameter server that is short of memory: what it is asked for fails, and nothing else.
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ps_server/growing_storage.h"
#include "ps_server/shard_snapshot.h"
#include "runtime/graph/builder.h"
#include "runtime/tensor/limits.h"
#include "tests/testing/data_files.h"
#include "tests/testing/failing_memory.h"
#include "tests/testing/hash_shards.h"
#include "tests/testing/ps_daemon.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using Kind = graph::Update::Kind;
using testing::Apply;
using testing::ClusterOps;
using testing::FailingMemory;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::PsDaemon;
using testing::RandomTensor;
using testing::ReadOf;
using testing::ScarceMemory;
using testing::ShardOf;
using testing::StepOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr int64_t kRows = 4000, kWidth = 16;
constexpr int kMostPlaces = 200;  // far more than any request has places where memory may be short

// Calls `request` with no memory, with that of one request for it, of two, until nothing fails.
// Before, it either succeeds or says what is wrong. `after` is called, with memory, after each
// failure. Returns how often it failed.
int UntilItSucceeds(
    const std::function<absl::Status()>& request, const std::function<void()>& after = [] {}) {
  int failures = 0;
  for (int granted = 0; granted < kMostPlaces; ++granted) {
    absl::Status status;
    bool failed = false;
    {
      FailingMemory memory(granted);
      status = request();
      failed = memory.failed();
    }
    INFO("after " << granted << " grants: " << status.ToString());
    if (!failed) {
      CHECK(status.ok());
      return failures;
    }
    if (status.ok()) continue;
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    ++failures;
    after();
  }
  FAIL("still fails after " << kMostPlaces << " grants");
  return failures;
}

// No buffer may be larger as long as it lives, not even one that was used before.
class SmallBuffers {
 public:
  SmallBuffers() { SetMaxBufferBytes(64 << 10); }
  ~SmallBuffers() { SetMaxBufferBytes(before_); }

 private:
  const size_t before_ = MaxBufferBytes();
};

proto::ShardSpec Users() {
  return WholeOf(VariableOf("users", {kRows, kWidth}, true, OptimizerOf("adagrad")), 1);
}

proto::ShardSpec Words(int64_t min_count = 1) {
  proto::HashTableSpec hash;
  hash.set_min_count(min_count);
  return HashShardsOf(HashTableOf("words", kWidth, OptimizerOf("adagrad"), hash), 1, 2)[0];
}

std::string NewDirectory(const DataFiles& files, const std::string& name) {
  std::filesystem::create_directory(files.Path(name));
  return files.Path(name);
}

std::vector<int64_t> SomeIds(int64_t n, int64_t step) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(i * step);
  return ids;
}

TEST_CASE("a snapshot without memory for rows that change gives up, and the updates go on",
          "[memory]") {
  auto shard = Make(Users()), other = Make(Users());
  const auto update =
      UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{300, kWidth}, 1), Ids(SomeIds(300, 7)));
  for (const int granted : {0, 1}) {
    const auto snapshot = shard->Snapshot();
    REQUIRE(snapshot->status().ok());
    {
      FailingMemory memory(granted);
      Apply(shard.get(), update);
      // 300 rows of 192 bytes fit into one slab.
      CHECK(memory.failed() == (granted == 0));
    }
    Apply(other.get(), update);
    CHECK((ValuesOf<float>(*shard->Read()) == ValuesOf<float>(*other->Read())));
    CHECK(snapshot->status().ok() == (granted > 0));
    if (granted > 0) continue;
    CHECK(snapshot->preserved_bytes() == 0);
    std::vector<int64_t> rows;
    std::vector<char> bytes(64);
    for (const absl::Status& status :
         {snapshot->ReadRows(0, 1, 0).status(), snapshot->CopyBytes(0, 64, 0, bytes.data()),
          snapshot->CopyRows({5}, 0, 64, 0, bytes.data()), snapshot->FindTouched(0, 9, 0, &rows)}) {
      CHECK(status == snapshot->status());
      CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    }
  }
  FailingMemory memory(0);
  const auto snapshot = shard->Snapshot();
  CHECK(snapshot->status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("a save without memory fails wherever that is, and the next one succeeds", "[memory]") {
  const DataFiles files;
  PsDaemon ps;
  REQUIRE(ps.Create({Users(), Words(2)}).ok());
  int number = 0;
  const auto save = [&] { return ps.Save(NewDirectory(files, absl::StrCat(++number)), {1, 2}); };
  CHECK(UntilItSucceeds([&] { return save().status(); }) > 1);
  const auto saved = save();
  REQUIRE(saved.ok());
  const std::string rows = *ps.Rows(Users());
  CHECK(UntilItSucceeds([&] { return ps.Restore(files.Path(absl::StrCat(number)), *saved); }) > 1);
  CHECK((*ps.Rows(Users()) == rows));
}

TEST_CASE("shards that there is no memory for are not made, and can be made later", "[memory]") {
  PsDaemon ps;
  {
    const SmallBuffers small;
    CHECK(absl::IsResourceExhausted(ps.Create({Users(), Words(2)})));
  }
  CHECK(ps.Status().shards_size() == 0);
  REQUIRE(ps.Create({Users(), Words(2)}).ok());
  CHECK(ps.Status().shards_size() == 2);
}

// As the system promises it all, and ends the process once it is used.
TEST_CASE("a table that is larger than what is free is refused before the memory is used",
          "[memory]") {
  constexpr double kMiB = 1 << 20;
  PsDaemon ps;
  const proto::ShardSpec large =
      WholeOf(VariableOf("users", {2'500'000, kWidth}, true, OptimizerOf("adagrad")), 1);
  const auto refusal = [&](double free, double each_time) {
    const ScarceMemory memory(free, each_time);
    return ps.Create({large});
  };
  absl::Status refused = refusal(300 * kMiB, 0);  // of 305
  CHECK(absl::IsResourceExhausted(refused));
  CHECK_THAT(std::string(refused.message()),
             Contains("/job:ps/task:0: shard 1 of variable 'users': wanted 305.2 MiB of memory, "
                      "free are 300 MiB of the 7.451 GiB that the machine has"));
  // A neighbour takes memory meanwhile.
  refused = refusal(340 * kMiB, 300 * kMiB);
  CHECK(absl::IsResourceExhausted(refused));
  CHECK_THAT(std::string(refused.message()),
             Contains("wanted 49.18 MiB of memory, free are 40 MiB"));
  CHECK(ps.Status().shards_size() == 0);
  REQUIRE(refusal(340 * kMiB, 250 * kMiB).ok());
}

TEST_CASE("a hash table grows as far as there is memory, and says so when there is none",
          "[memory]") {
  constexpr double kMiB = 1 << 20;
  auto grown = GrowingStorage::Create(size_t{1} << 30);
  REQUIRE(grown.ok());
  const auto grow = [&](size_t mib, double free) {
    const ScarceMemory memory(free * kMiB);
    return grown->Grow(mib << 20);
  };
  REQUIRE(grow(60, 0).ok());  // small
  REQUIRE(grow(128, 200).ok());
  CHECK(grown->bytes() == 128 << 20);
  REQUIRE(grow(130, 40).ok());  // not an eighth more, as it would be otherwise
  CHECK(grown->bytes() == 130 << 20);
  const absl::Status refused = grow(140, 40);
  CHECK(absl::IsResourceExhausted(refused));
  CHECK_THAT(std::string(refused.message()), Contains("wanted 10 MiB of memory, free are 40 MiB"));
  CHECK(grown->bytes() == 130 << 20);
  REQUIRE(grow(131, 100).ok());
  CHECK(grown->bytes() > 140 << 20);
}

TEST_CASE("rows that there is no memory for are not read", "[memory]") {
  PsDaemon ps;
  REQUIRE(ps.Create({Users()}).ok());
  {
    const SmallBuffers small;
    CHECK(absl::IsResourceExhausted(ps.Rows(Users()).status()));
  }
  CHECK(ps.Rows(Users()).ok());
}

TEST_CASE("a hash table that is written without memory stays as it is", "[memory]") {
  for (const bool replace : {false, true}) {
    auto shard = Make(Words());
    REQUIRE(shard->WriteIds(Ids(SomeIds(500, 3)), RandomTensor(Shape{500, kWidth}, 1)).ok());
    const auto before = testing::BytesOf(*shard->Snapshot());
    const Tensor ids = Ids(SomeIds(3000, 5)), rows = RandomTensor(Shape{3000, kWidth}, 2);
    const auto is_as_before = [&] {
      CHECK((testing::BytesOf(*shard->Snapshot()) == before));
      CHECK(shard->hash()->rows() == 500);
    };
    CHECK(UntilItSucceeds([&] { return shard->WriteIds(ids, rows, replace); }, is_as_before) > 1);
    CHECK((ValuesOf<float>(*shard->Gather(ids)) == ValuesOf<float>(rows)));
  }
}

// A segment with one update of each kind that takes memory to apply.
constexpr ShardId kWords = 2, kRareWords = 3, kDense = 4;
constexpr int64_t kSome = 600;

std::vector<proto::ShardSpec> UpdatedShards() {
  proto::ShardSpec rare = Words(2);
  rare.set_id(kRareWords);
  return {Words(), rare,
          WholeOf(VariableOf("w", {kSome, kWidth}, false, OptimizerOf("adagrad")), 4)};
}

graph::Function PushAll() {
  graph::GraphBuilder b("push", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kSome});
  const Output gradient = b.Argument("gradient", DType::kF32, Shape{kSome, kWidth});
  for (const ShardId id : {kWords, kRareWords}) {
    b.Target("ApplySparse", {ids, gradient}, ShardOf(id));
  }
  b.Target("ApplyDense", {gradient}, ShardOf(kDense));
  auto function = b.Finish();
  INFO(function.status().ToString());
  REQUIRE(function.ok());
  return *std::move(function);
}

TEST_CASE("updates without memory are refused, and are applied once when they come again",
          "[memory]") {
  PsDaemon ps, reference;
  for (PsDaemon* one : {&ps, &reference}) {
    REQUIRE(one->Create(UpdatedShards()).ok());
    REQUIRE(one->Register(1, PushAll()).ok());
  }
  auto worker = ps.ConnectWorker(0), reference_worker = reference.ConnectWorker(0);
  const DataFiles files;
  int refused = 0;
  for (ClosureId closure = 1; closure <= 4; ++closure) {
    // Ids that are new, that come again, and that go beyond what there is room for.
    const std::vector<Tensor> sent = {Ids(SomeIds(kSome, static_cast<int64_t>(1 + closure / 2))),
                                      RandomTensor(Shape{kSome, kWidth}, closure)};
    // A dense variable that somebody has a handle on is copied.
    proto::ControlRequest save =
        PsDaemon::SaveRequest(NewDirectory(files, absl::StrCat(closure)), {4});
    ps.Send(save);
    refused +=
        UntilItSucceeds([&] { return PsDaemon::Push(worker.get(), ps.Frame(1, closure, sent)); });
    ps.env.step_pool.RunAll();
    REQUIRE(ps.coordinator->ReceiveStatus().ok());
    REQUIRE(PsDaemon::Push(reference_worker.get(), reference.Frame(1, closure, sent)).ok());
  }
  CHECK(refused > 4);
  const auto files_of = [&](PsDaemon* one, const std::string& name) {
    const auto saved = one->Save(NewDirectory(files, name), {kWords, kRareWords, kDense});
    REQUIRE(saved.ok());
    std::map<ShardId, uint32_t> crc32;
    for (const auto& shard : saved->shards()) {
      crc32[shard.shard().id()] = shard.crc32();
      CHECK(shard.applied() == 4);
    }
    return crc32;
  };
  CHECK(files_of(&ps, "ps") == files_of(&reference, "reference"));
}

}  // namespace
}  // namespace coxswain::ps
