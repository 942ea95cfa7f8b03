// Shards of hash tables whose rows are in the memory of a GPU, a fake one, beside the same on the
// host.
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "ps_server/shard_store.h"
#include "tests/testing/data_files.h"
#include "tests/testing/gpu_rows.h"
#include "tests/testing/hash_shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::Apply;
using testing::BytesOf;
using testing::GpuShards;
using testing::Ids;
using testing::KindsOfHashTables;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::SaveShard;
using testing::StepOfHashTable;
using testing::UpdateOf;
using testing::ValuesOf;

proto::ShardSpec HashTable(const std::string& optimizer, const proto::HashTableSpec& hash = {},
                           int64_t dim = 6) {
  return testing::HashShardsOf(testing::HashTableOf("users", dim, OptimizerOf(optimizer), hash),
                               1)[0];
}

// The same steps for both; the gradients of every second one are in the device's memory.
void Train(uint64_t begin, uint64_t end, const GpuShards& gpu, Shard* there, Shard* here) {
  for (uint64_t number = begin; number < end; ++number) {
    StepOfHashTable(here, number);
    StepOfHashTable(there, number, [&](const Tensor& gradient) {
      return number % 2 == 0 ? gradient : gpu.OnDevice(gradient);
    });
  }
}

void CheckSame(Shard* a, Shard* b) {
  const auto of_a = BytesOf(*a->Snapshot()), of_b = BytesOf(*b->Snapshot());
  REQUIRE(of_a.size() == of_b.size());
  for (const auto& [name, bytes] : of_a) {
    INFO("part " << name);
    CHECK((bytes == of_b.at(name)));  // not printed
  }
  CHECK(a->hash()->rows() == b->hash()->rows());
  CHECK(a->hash()->dropped() == b->hash()->dropped());
  CHECK(a->hash()->evicted() == b->hash()->evicted());
}

// Ids from `begin` on.
std::vector<int64_t> IdsFrom(int64_t begin, int64_t n) {
  std::vector<int64_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

void Update(Shard* shard, const std::vector<int64_t>& ids, const Tensor& gradient) {
  Apply(shard, UpdateOf(Kind::kSparse, shard->id(), gradient, Ids(ids)));
}

TEST_CASE("hash table: rows in a GPU's memory come, change and go to the same bits as on the host",
          "[gpu_rows]") {
  for (const std::string optimizer :
       {"sgd", "momentum", "adagrad", "rowwise_adagrad", "rmsprop", "lazy_adam", "adamw", "ftrl"}) {
    for (const proto::HashTableSpec& kind : KindsOfHashTables()) {
      CAPTURE(optimizer, kind.ShortDebugString());
      GpuShards gpu;
      const auto there = gpu.Make(HashTable(optimizer, kind)),
                 here = Make(HashTable(optimizer, kind));
      CHECK(there->rows_on() == gpu.device()->device());
      Train(0, 60, gpu, there.get(), here.get());
      CheckSame(there.get(), here.get());
      CHECK(gpu.lost().empty());
    }
  }
}

TEST_CASE("hash table: ids with and without rows are looked up in a GPU's memory and from there",
          "[gpu_rows]") {
  GpuShards gpu;
  const auto there = gpu.Make(HashTable("adagrad")), here = Make(HashTable("adagrad"));
  for (const uint64_t steps : {0, 20}) {
    Train(0, steps, gpu, there.get(), here.get());
    for (const std::vector<int64_t>& ids : {IdsFrom(-500, 3000), {7, 1 << 20, 7, -3}, {}}) {
      const std::vector<float> wanted = ValuesOf<float>(here->Gather(Ids(ids)).value());
      CHECK(ValuesOf<float>(there->Gather(Ids(ids)).value()) == wanted);
      const Tensor rows = there->GatherOnDevice(Ids(ids)).value();
      CHECK(rows.device() == there->rows_on());
      CHECK(ValuesOf<float>(gpu.OnHost(rows)) == wanted);
    }
  }
  CheckSame(there.get(), here.get());  // looking up makes no rows
}

TEST_CASE("hash table: a snapshot of rows in a GPU's memory is as it was while rows come and go",
          "[gpu_rows]") {
  for (const proto::HashTableSpec& kind : KindsOfHashTables()) {
    CAPTURE(kind.ShortDebugString());
    GpuShards gpu;
    const auto there = gpu.Make(HashTable("adagrad", kind)),
               here = Make(HashTable("adagrad", kind));
    Train(0, 60, gpu, there.get(), here.get());
    const auto first = there->Snapshot();
    const auto before = BytesOf(*first);
    Train(60, 75, gpu, there.get(), here.get());
    const auto second = there->Snapshot(), same = here->Snapshot();
    Train(75, 160, gpu, there.get(), here.get());
    CHECK(BytesOf(*first) == before);
    CHECK(BytesOf(*second) == BytesOf(*same));
    CheckSame(there.get(), here.get());
  }
}

TEST_CASE("hash table: a checkpoint of rows in a GPU's memory is restored there and on the host",
          "[gpu_rows]") {
  const DataFiles files;
  const bool on_gpu = GENERATE(true, false);
  CAPTURE(on_gpu);
  for (const proto::HashTableSpec& kind : KindsOfHashTables()) {
    CAPTURE(kind.ShortDebugString());
    GpuShards gpu;
    const auto there = gpu.Make(HashTable("adagrad", kind)),
               here = Make(HashTable("adagrad", kind));
    Train(0, 90, gpu, there.get(), here.get());
    const Shard* const from = on_gpu ? here.get() : there.get();
    proto::SavedShard saved = SaveShard(*from, *there->Snapshot(), files.Write("shard", ""));
    saved.mutable_shard()->mutable_variable()->set_device(on_gpu ? kOnGpu : "");
    absl::StatusOr<LoadedShard> loaded =
        LoadShard(env::NewRealFileSystem().get(), saved, gpu.devices());
    INFO(loaded.status().ToString());
    REQUIRE(loaded.ok());
    Shard* const restored = loaded->shard.get();
    CheckSame(restored, here.get());
    Train(90, 150, gpu, on_gpu ? restored : there.get(), on_gpu ? here.get() : restored);
    CheckSame(restored, on_gpu ? here.get() : there.get());
  }
}

TEST_CASE("hash table: rows in a GPU's memory are read and written by id", "[gpu_rows]") {
  GpuShards gpu;
  const auto there = gpu.Make(HashTable("adagrad")), here = Make(HashTable("adagrad"));
  Train(0, 10, gpu, there.get(), here.get());
  const std::vector<int64_t> ids = {3, 1000000, 5, 3, -77};  // an id twice: the last counts
  for (Shard* const shard : {there.get(), here.get()}) {
    REQUIRE(shard->WriteIds(Ids(ids), RandomTensor(Shape{5, 6}, 1)).ok());
    REQUIRE(shard->WritePartOfIds(Ids({5, -77}), RandomTensor(Shape{2, 6}, 2), 1).ok());
  }
  CheckSame(there.get(), here.get());
  for (int p = 0; p < here->parts(); ++p) {
    const auto a = there->ReadIds(0, there->rows(), p), b = here->ReadIds(0, here->rows(), p);
    REQUIRE(a.ok());
    CHECK(ValuesOf<int64_t>(a->ids) == ValuesOf<int64_t>(b->ids));
    CHECK(std::memcmp(a->rows.raw(), b->rows.raw(), b->rows.bytes()) == 0);
  }
  for (Shard* const shard : {there.get(), here.get()}) {
    const auto before = shard->Snapshot();
    const auto bytes = BytesOf(*before);
    REQUIRE(shard->WriteIds(Ids({1, 2}), RandomTensor(Shape{2, 6}, 3), /*replace=*/true).ok());
    CHECK(shard->hash()->rows() == 2);
    CHECK(BytesOf(*before) == bytes);
  }
  CheckSame(there.get(), here.get());
}

TEST_CASE("hash table: its block in a GPU's memory grows with its rows", "[gpu_rows]") {
  constexpr int64_t kDim = 64, kStep = 5000;  // a step's rows take more than the first block
  GpuShards gpu;
  const auto there = gpu.Make(HashTable("adagrad", {}, kDim));
  const auto here = Make(HashTable("adagrad", {}, kDim));
  const int64_t bytes = there->memory_bytes();
  for (int64_t step = 0; step < 6; ++step) {
    const std::vector<int64_t> ids = IdsFrom(step * kStep / 2, kStep);  // half of them are new
    const Tensor gradient = RandomTensor(Shape{kStep, kDim}, static_cast<uint64_t>(step));
    Update(here.get(), ids, gradient);
    Update(there.get(), ids, step % 2 == 0 ? gradient : gpu.OnDevice(gradient));
  }
  CHECK(there->memory_bytes() > bytes + 17500 * kDim * 2 * int64_t{sizeof(float)});
  CheckSame(there.get(), here.get());
  CHECK(gpu.lost().empty());
}

TEST_CASE("hash table: one with max_rows has its room in a GPU's memory from the beginning",
          "[gpu_rows]") {
  proto::HashTableSpec hash;
  hash.set_max_rows(100000);
  GpuShards gpu;
  const auto there = gpu.Make(HashTable("adagrad", hash, 64));
  CHECK(there->memory_bytes() > int64_t{100000} * 64 * 2 * int64_t{sizeof(float)});
  device::FakeDeviceOptions small;
  small.memory_bytes = 8 << 20;
  const absl::Status refused = GpuShards(small).Create(HashTable("adagrad", hash, 64)).status();
  INFO(refused.ToString());
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(absl::StrContains(refused.message(), "variable 'users', 112501 rows"));
}

TEST_CASE("hash table: updates of rows that are there take no more of a GPU's memory",
          "[gpu_rows]") {
  constexpr int64_t kDim = 16, kRows = 20000;
  const bool bounded = GENERATE(true, false);
  CAPTURE(bounded);
  proto::HashTableSpec hash;
  if (bounded) hash.set_max_rows(kRows);
  GpuShards gpu;
  ShardStore store;
  REQUIRE(store.Add(gpu.Make(HashTable("adagrad", hash, kDim))).ok());
  Shard* const shard = store.Get(1).value();
  for (int64_t id = 0; id < kRows; id += 1000) {
    Update(shard, IdsFrom(id, 1000), RandomTensor(Shape{1000, kDim}, 1));
  }
  REQUIRE(shard->hash()->rows() == kRows);
  const auto bytes = [&] { return shard->memory_bytes() - shard->hash()->memory_bytes(); };
  const int64_t full = bytes();
  const auto stage = [](int64_t begin, SegmentTransaction* segment) {
    for (uint32_t key = 0; key < 2; ++key) {
      graph::Update update = UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{kRows, kDim}, key),
                                      Ids(IdsFrom(begin, kRows)));
      update.key = key;
      REQUIRE(segment->Stage(std::move(update)).ok());
    }
  };
  SegmentTransaction segment(&store);
  stage(0, &segment);
  CHECK(segment.Commit(testing::StepOf(1)).applied == 1);
  CHECK(bytes() == full);
  // A synchronous step, whose updates are held until all are there.
  const SyncStep step{.first = 2, .count = 3, .after = 0};
  for (ClosureId closure = 2; closure <= 4; ++closure) {
    stage(0, &segment);
    CHECK(segment.Hold(step, testing::StepOf(closure))->applied == 2);
  }
  for (ClosureId closure = 2; closure <= 4; ++closure) {
    CHECK(store.HeldEverywhere(step, testing::StepOf(closure)).ok());
  }
  CHECK(bytes() == full);
  REQUIRE(shard->WriteIds(Ids(IdsFrom(0, kRows)), RandomTensor(Shape{kRows, kDim}, 3)).ok());
  CHECK(bytes() == full);
  REQUIRE(shard->WriteIds(Ids(IdsFrom(7, kRows)), RandomTensor(Shape{kRows, kDim}, 3), true).ok());
  CHECK(bytes() == full);
  // New ones do, as soon as they are held.
  const SyncStep next{.first = 5, .count = 1, .after = 2};
  stage(kRows * 10, &segment);
  CHECK(segment.Hold(next, testing::StepOf(5))->applied == 2);
  CHECK(bytes() > full);
  CHECK(gpu.lost().empty());
}

TEST_CASE(
    "hash table: an update for whose rows the GPU has no room is refused, and the next applied",
    "[gpu_rows]") {
  constexpr int64_t kDim = 64;
  device::FakeDeviceOptions options;
  options.memory_bytes = 6 << 20;
  GpuShards gpu(options);
  const auto there = gpu.Make(HashTable("adagrad", {}, kDim));
  const auto here = Make(HashTable("adagrad", {}, kDim));
  Update(here.get(), IdsFrom(0, 500), RandomTensor(Shape{500, kDim}, 1));
  Update(there.get(), IdsFrom(0, 500), RandomTensor(Shape{500, kDim}, 1));
  const absl::Status refused = there->Reserve(20000);
  INFO(refused.ToString());
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(absl::StrContains(refused.message(), "variable 'users'"));
  CHECK(absl::StrContains(refused.message(), "to grow from"));
  CHECK(gpu.lost().empty());
  Update(here.get(), IdsFrom(300, 500), RandomTensor(Shape{500, kDim}, 2));
  Update(there.get(), IdsFrom(300, 500), RandomTensor(Shape{500, kDim}, 2));
  CheckSame(there.get(), here.get());
}

TEST_CASE(
    "hash table: when there is no room for the rows of an update that is applied, the GPU's "
    "rows are lost, not the process",
    "[gpu_rows]") {
  constexpr int64_t kDim = 64, kMany = 20000;
  device::FakeDeviceOptions options;
  options.memory_bytes = 6 << 20;
  GpuShards gpu(options);
  const auto there = gpu.Make(HashTable("adagrad", {}, kDim));
  // Without Reserve, as if others had taken the memory since.
  const graph::Update update = UpdateOf(
      Kind::kSparse, there->id(), RandomTensor(Shape{kMany, kDim}, 1), Ids(IdsFrom(0, kMany)));
  const graph::Update* const one = &update;
  there->ApplySegment(absl::MakeConstSpan(&one, 1), {});
  REQUIRE(gpu.lost().size() == 1);
  CHECK(device::IsDeviceLost(there->Gather(Ids({3})).status()));
}

TEST_CASE(
    "hash table: gradients in a GPU's memory of ids without a row are dropped, where there is "
    "no memory for the others, too",
    "[gpu_rows]") {
  constexpr int64_t kDim = 64, kIds = 4000;
  proto::HashTableSpec hash;
  hash.set_admission_probability(0.5);
  hash.set_max_rows(2 * kIds);
  const auto here = Make(HashTable("adagrad", hash, kDim));
  const Tensor gradient = RandomTensor(Shape{kIds, kDim}, 1);
  device::FakeDeviceOptions options;
  // The block, what is set aside, the gradient, each rounded up to a power of two, and little more.
  options.memory_bytes = (size_t{8} << 20) + (1 << 20) + (1 << 20) + (300 << 10);
  GpuShards gpu(options);
  const auto there = gpu.Make(HashTable("adagrad", hash, kDim));
  const Tensor on_device = gpu.OnDevice(gradient);
  CHECK(absl::IsResourceExhausted(there->GatherOnDevice(Ids(IdsFrom(0, kIds))).status()));
  for (int step = 0; step < 3; ++step) {
    Update(here.get(), IdsFrom(0, kIds), gradient);
    Update(there.get(), IdsFrom(0, kIds), on_device);
  }
  CHECK(here->hash()->dropped() > kIds / 2);
  CHECK(gpu.lost().empty());
  CheckSame(there.get(), here.get());
}

TEST_CASE("hash table: when the GPU is lost, rows that come and go are no end of the process",
          "[gpu_rows]") {
  for (const proto::HashTableSpec& kind : KindsOfHashTables()) {
    GpuShards gpu;
    const auto there = gpu.Make(HashTable("adagrad", kind)),
               here = Make(HashTable("adagrad", kind));
    Train(0, 20, gpu, there.get(), here.get());
    const Tensor gradient = gpu.OnDevice(RandomTensor(Shape{40, 6}, 1));
    const auto snapshot = there->Snapshot();
    gpu.device()->Break();
    for (int i = 0; i < 3; ++i) {
      // Room was made before.
      const graph::Update update =
          UpdateOf(Kind::kSparse, there->id(), gradient, Ids(IdsFrom(i * 20, 40)));
      const graph::Update* const one = &update;
      there->ApplySegment(absl::MakeConstSpan(&one, 1), {});
    }
    CHECK(device::IsDeviceLost(there->GatherOnDevice(Ids({3})).status()));
    CHECK(device::IsDeviceLost(snapshot->ReadRows(0, 1, 0).status()));
    CHECK(gpu.lost().size() == 1);
  }
}

}  // namespace
}  // namespace coxswain::ps
