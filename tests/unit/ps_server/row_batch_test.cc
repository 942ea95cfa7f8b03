// Segments of several tables in the memory of a GPU, a fake one: what they look up and update goes
// there together, and is the same as on the host.
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ps_server/row_batch.h"
#include "ps_server/shard_store.h"
#include "tests/testing/gpu_rows.h"
#include "tests/testing/hash_shards.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::GpuShards;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::StepOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr int64_t kRows = 60, kDim = 12;

proto::ShardSpec Numbered(ShardId id, const std::string& optimizer, int64_t rows = kRows,
                          int64_t dim = kDim) {
  proto::VariableSpec variable = VariableOf("v", {rows, dim}, true, OptimizerOf(optimizer));
  variable.mutable_initializer()->set_kind("normal");
  variable.mutable_initializer()->set_stddev(0.1);
  variable.mutable_initializer()->set_seed(id);
  proto::ShardSpec spec = WholeOf(variable);
  spec.set_id(id);
  return spec;
}

// With so few rows that each update evicts some.
proto::ShardSpec Hashed(ShardId id, int64_t max_rows) {
  proto::HashTableSpec hash;
  hash.set_max_rows(max_rows);
  proto::ShardSpec spec = HashShardsOf(HashTableOf("h", kDim, OptimizerOf("adagrad"), hash), 1)[0];
  spec.set_id(id);
  return spec;
}

// Optimizers of several kinds one behind the other, and hash tables among them.
std::vector<proto::ShardSpec> Specs() {
  return {Numbered(1, "adagrad"), Numbered(2, "adagrad"), Numbered(3, "sgd"),
          Hashed(4, 30),          Numbered(5, "adagrad"), Hashed(6, 1000)};
}

std::vector<int64_t> IdsOf(ShardId shard, uint64_t step) {
  const auto s = static_cast<int64_t>(step), t = static_cast<int64_t>(shard);
  return {0, 5 + t, 20 + (s * 3 + t) % 20, 45 + s % 10};
}

// The same tables on the host and on the GPU, in one lane.
struct Tables {
  explicit Tables(const device::FakeDeviceOptions& options = {}) : gpu(options) {
    for (const proto::ShardSpec& spec : Specs()) {
      REQUIRE(here.Add(spec).ok());
      auto shard = gpu.Make(spec);
      shard->SetLane(0);
      REQUIRE(there.Add(std::move(shard)).ok());
    }
  }

  // An update of each table for both; on the GPU, its gradients come from there in every second.
  void Stage(SegmentTransaction* on_host, SegmentTransaction* on_gpu, uint64_t step,
             uint32_t key = 0) const {
    for (const ShardId id : there.Ids()) {
      const Tensor gradient = RandomTensor(Shape{4, kDim}, 100 * step + id + 1000 * key);
      graph::Update update = UpdateOf(Kind::kSparse, id, gradient, Ids(IdsOf(id, step)));
      update.key = key;
      REQUIRE(on_host->Stage(update).ok());
      if (step % 2 == 0) update.values = gpu.OnDevice(gradient);
      REQUIRE(on_gpu->Stage(update).ok());
    }
  }

  void CheckSame() {
    for (const ShardId id : there.Ids()) {
      INFO("shard " << id);
      const Shard &a = *there.Get(id).value(), &b = *here.Get(id).value();
      std::vector<int64_t> ids(kRows);
      for (int64_t i = 0; i < kRows; ++i) ids[static_cast<size_t>(i)] = i;
      CHECK(ValuesOf<float>(a.Gather(Ids(ids)).value()) ==
            ValuesOf<float>(b.Gather(Ids(ids)).value()));
    }
  }

  GpuShards gpu;
  ShardStore here, there;
};

TEST_CASE("rows of several tables are looked up with one copy, and are those of the host",
          "[gpu_rows]") {
  Tables tables;
  for (uint64_t step = 0; step < 8; ++step) {
    SegmentTransaction on_host(&tables.here), on_gpu(&tables.there);
    on_gpu.TakeRowsOn(tables.gpu.device()->device());
    std::vector<Tensor> wanted, found;
    const int64_t copies = tables.gpu.device()->stats().copies_to_device;
    for (const ShardId id : tables.there.Ids()) {
      wanted.push_back(on_host.Gather(id, Ids(IdsOf(id, step))).value());
      found.push_back(on_gpu.GatherForDevice(id, Ids(IdsOf(id, step))).value());
      REQUIRE(found.back().device() == tables.gpu.device()->device());
    }
    REQUIRE(on_gpu.FinishReads().ok());
    CHECK(tables.gpu.device()->stats().copies_to_device == copies + 1);
    for (size_t i = 0; i < wanted.size(); ++i) {
      CHECK(ValuesOf<float>(tables.gpu.OnHost(found[i])) == ValuesOf<float>(wanted[i]));
    }
    tables.Stage(&on_host, &on_gpu, step);
    on_host.Commit(StepOf(step + 1));
    on_gpu.Commit(StepOf(step + 1));
  }
  CHECK(tables.gpu.lost().empty());
}

TEST_CASE("updates of several tables go to the GPU with one copy, and give the host's bits",
          "[gpu_rows]") {
  Tables tables;
  for (uint64_t step = 0; step < 12; ++step) {
    SegmentTransaction on_host(&tables.here), on_gpu(&tables.there);
    tables.Stage(&on_host, &on_gpu, step);
    const int64_t copies = tables.gpu.device()->stats().copies_to_device;
    CHECK(on_host.Commit(StepOf(step + 1)).applied == 6);
    CHECK(on_gpu.Commit(StepOf(step + 1)).applied == 6);
    const int64_t taken = tables.gpu.device()->stats().copies_to_device - copies;
    // Rows that hash tables begin are written before the update.
    CHECK(taken >= 1);
    CHECK(taken <= 3);
  }
  tables.CheckSame();
  CHECK(tables.gpu.lost().empty());
}

// A place that the first update's eviction frees may be one where the second begins a row.
TEST_CASE("two updates of one table in one segment happen one after the other", "[gpu_rows]") {
  Tables tables;
  for (uint64_t step = 0; step < 20; ++step) {
    SegmentTransaction on_host(&tables.here), on_gpu(&tables.there);
    tables.Stage(&on_host, &on_gpu, step, 0);
    tables.Stage(&on_host, &on_gpu, step + 7, 1);
    on_host.Commit(StepOf(step + 1));
    on_gpu.Commit(StepOf(step + 1));
  }
  tables.CheckSame();
  CHECK(tables.there.Get(4).value()->hash()->evicted() > 0);
}

TEST_CASE(
    "rows that were looked up are as they were then, whatever happens to the table before "
    "they are brought",
    "[gpu_rows]") {
  Tables tables;
  for (const ShardId id : tables.there.Ids()) {
    INFO("shard " << id);
    Shard *const there = tables.there.Get(id).value(), *const here = tables.here.Get(id).value();
    const Tensor ids = Ids({1, 2, 3});
    const std::vector<float> before = ValuesOf<float>(here->Gather(ids).value());
    RowBatch batch;
    const Tensor found = there->GatherOnDevice(ids, &batch).value();
    const graph::Update update = UpdateOf(Kind::kSparse, id, RandomTensor(Shape{3, kDim}, 9), ids);
    testing::Apply(there, update);
    testing::Apply(here, update);
    REQUIRE(there->Reserve(5000).ok());
    REQUIRE(batch.Run().ok());
    CHECK(ValuesOf<float>(tables.gpu.OnHost(found)) == before);
  }
  tables.CheckSame();
}

// As a segment of its own, which waits.
void ApplyLater(Shard* shard, const graph::Update& update, RowBatch* batch) {
  REQUIRE(shard->Validate(update).ok());
  REQUIRE(shard->Reserve(update.ids.num_elements()).ok());
  const graph::Update* const one = &update;
  shard->ApplySegment(absl::MakeConstSpan(&one, 1), {}, {}, batch);
}

TEST_CASE("whatever is done with a table comes after its updates that wait", "[gpu_rows]") {
  Tables tables;
  Shard *const there = tables.there.Get(1).value(), *const here = tables.here.Get(1).value();
  RowBatch batch;
  const Tensor ids = Ids({1, 2, 3});
  for (uint64_t round = 0; round < 4; ++round) {
    const graph::Update update =
        UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{3, kDim}, round), ids);
    ApplyLater(there, update, &batch);
    testing::Apply(here, update);
    switch (round) {
      case 0:
        CHECK(ValuesOf<float>(there->ReadRows(0, 5).value()) ==
              ValuesOf<float>(here->ReadRows(0, 5).value()));
        break;
      case 1:
        CHECK(ValuesOf<float>(there->Gather(ids).value()) ==
              ValuesOf<float>(here->Gather(ids).value()));
        break;
      case 2:
        for (Shard* const shard : {there, here}) {
          REQUIRE(shard->WriteRows(2, RandomTensor(Shape{1, kDim}, 77)).ok());
        }
        break;
      default:
        CHECK(ValuesOf<float>(tables.gpu.OnHost(there->GatherOnDevice(ids).value())) ==
              ValuesOf<float>(here->Gather(ids).value()));
    }
  }
  REQUIRE(batch.Run().ok());
  tables.CheckSame();
}

TEST_CASE("rows that begin at the place of one that went come after the update of that one",
          "[gpu_rows]") {
  GpuShards gpu;
  const proto::ShardSpec spec = Hashed(1, 2);
  const auto there = gpu.Make(spec), here = testing::Make(spec);
  RowBatch batch;
  for (int64_t step = 0; step < 10; ++step) {
    const Tensor ids = Ids({4 * step, 4 * step + 1, 4 * step + 2, 4 * step + 3});
    const graph::Update update =
        UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{4, kDim}, static_cast<uint64_t>(step)), ids);
    ApplyLater(there.get(), update, &batch);
    testing::Apply(here.get(), update);
  }
  REQUIRE(batch.Run().ok());
  CHECK(here->hash()->evicted() >= 36);
  for (const Shard* const shard : {here.get(), there.get()}) CHECK(shard->hash()->rows() == 2);
  const Tensor all = Ids({36, 37, 38, 39, 0, 1});
  CHECK(ValuesOf<float>(there->Gather(all).value()) == ValuesOf<float>(here->Gather(all).value()));
}

TEST_CASE("where the GPU has no room for all of a segment, each table has what it would have alone",
          "[gpu_rows]") {
  constexpr int64_t kMany = 16384, kWide = 64;
  const size_t block = kMany * kWide * 2 * sizeof(float);
  device::FakeDeviceOptions options;
  // Two blocks, what is set aside, and a little: not for what is brought for both.
  options.memory_bytes = 2 * (block + (2 << 20));
  GpuShards gpu(options);
  ShardStore here, there;
  for (const ShardId id : {ShardId{1}, ShardId{2}}) {
    const proto::ShardSpec spec = Numbered(id, "adagrad", kMany, kWide);
    REQUIRE(here.Add(spec).ok());
    REQUIRE(there.Add(gpu.Make(spec)).ok());
  }
  std::vector<int64_t> ids(kMany);
  for (int64_t i = 0; i < kMany; ++i) ids[static_cast<size_t>(i)] = (i * 7919) % kMany;
  for (ShardStore* const store : {&here, &there}) {
    SegmentTransaction transaction(store);
    for (const ShardId id : {ShardId{1}, ShardId{2}}) {
      const Tensor gradient = RandomTensor(Shape{kMany, kWide}, id);
      REQUIRE(transaction.Stage(UpdateOf(Kind::kSparse, id, gradient, Ids(ids))).ok());
    }
    CHECK(transaction.Commit(StepOf(1)).applied == 2);
  }
  CHECK(gpu.lost().empty());
  for (const ShardId id : {ShardId{1}, ShardId{2}}) {
    const Tensor a = there.Get(id).value()->Read().value(),
                 b = here.Get(id).value()->Read().value();
    CHECK(std::memcmp(a.raw(), b.raw(), b.bytes()) == 0);
  }
}

TEST_CASE("when the GPU is lost, look-ups of a segment say so, and its updates change nothing",
          "[gpu_rows]") {
  Tables tables;
  SegmentTransaction on_host(&tables.here), on_gpu(&tables.there);
  on_gpu.TakeRowsOn(tables.gpu.device()->device());
  tables.Stage(&on_host, &on_gpu, 1);
  REQUIRE(on_gpu.GatherForDevice(1, Ids({1, 2})).ok());
  REQUIRE(on_gpu.GatherForDevice(2, Ids({1, 2})).ok());
  tables.gpu.device()->Break();
  CHECK(device::IsDeviceLost(on_gpu.FinishReads()));
  CHECK(on_gpu.FinishReads().ok());  // there is nothing any more
  on_gpu.Commit(StepOf(1));
  CHECK(device::IsDeviceLost(tables.there.Get(5).value()->Gather(Ids({3})).status()));
  CHECK(tables.gpu.lost().size() == 1);
}

TEST_CASE("look-ups of a segment that is given up are dropped", "[gpu_rows]") {
  Tables tables;
  {
    SegmentTransaction on_gpu(&tables.there);
    on_gpu.TakeRowsOn(tables.gpu.device()->device());
    for (const ShardId id : tables.there.Ids()) {
      REQUIRE(on_gpu.GatherForDevice(id, Ids({1})).ok());
    }
  }
  tables.CheckSame();
}

TEST_CASE("a table that another lane has goes on with that lane's stream", "[gpu_rows]") {
  Tables tables;
  for (uint64_t step = 0; step < 8; ++step) {
    for (const ShardId id : tables.there.Ids()) {
      tables.there.Get(id).value()->SetLane(static_cast<int>(step + id) % 3);
    }
    SegmentTransaction on_host(&tables.here), on_gpu(&tables.there);
    tables.Stage(&on_host, &on_gpu, step);
    on_host.Commit(StepOf(step + 1));
    on_gpu.Commit(StepOf(step + 1));
  }
  tables.CheckSame();
}

}  // namespace
}  // namespace coxswain::ps
