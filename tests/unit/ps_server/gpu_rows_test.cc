// Shards whose rows are in the memory of a GPU, a fake one, beside the same on the host.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/optimizers/optimizer_info.h"
#include "ps_server/shard_file.h"
#include "ps_server/shard_snapshot.h"
#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/gpu_rows.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::Apply;
using testing::GpuShards;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr int64_t kRows = 300, kDim = 20;

proto::ShardSpec Table(const std::string& optimizer, int64_t rows = kRows, int64_t dim = kDim) {
  proto::VariableSpec variable = VariableOf("users", {rows, dim}, true, OptimizerOf(optimizer));
  variable.mutable_initializer()->set_kind("normal");
  variable.mutable_initializer()->set_stddev(0.1);
  variable.mutable_initializer()->set_seed(5);
  return WholeOf(variable);
}

// Of the optimizers that move only the rows of an update.
std::vector<std::string> Optimizers() {
  return {"sgd", "momentum", "adagrad", "rowwise_adagrad", "rmsprop", "lazy_adam", "adamw", "ftrl"};
}

graph::Update Gradient(const Shard& shard, const std::vector<int64_t>& ids, const Tensor& values) {
  return UpdateOf(Kind::kSparse, shard.id(), values, Ids(ids));
}

// All parts of both, bit for bit.
void CheckSame(const Shard& a, const Shard& b) {
  REQUIRE(a.parts() == b.parts());
  CHECK(a.applied() == b.applied());
  for (int p = 0; p < a.parts(); ++p) {
    INFO("part " << a.part(p).name);
    const Tensor of_a = a.ReadRows(0, a.rows(), p).value();
    const Tensor of_b = b.ReadRows(0, b.rows(), p).value();
    REQUIRE(of_a.shape() == of_b.shape());
    CHECK(std::memcmp(of_a.raw(), of_b.raw(), of_a.bytes()) == 0);
  }
}

std::vector<int64_t> IdsOfStep(int64_t step) {
  return {0, kRows - 1, 7, 10 + step % 50, 100 + step * 3 % 90, 250 - step % 40};
}

// The same updates for both; those of every second step are in the device's memory.
void Train(int64_t steps, GpuShards* gpu, Shard* on_gpu, Shard* on_host) {
  for (int64_t step = 0; step < steps; ++step) {
    const std::vector<int64_t> ids = IdsOfStep(on_host->applied());
    const Tensor values = RandomTensor(Shape{static_cast<int64_t>(ids.size()), kDim},
                                       static_cast<uint64_t>(on_host->applied()));
    Apply(on_host, Gradient(*on_host, ids, values));
    Apply(on_gpu, Gradient(*on_gpu, ids, step % 2 == 0 ? values : gpu->OnDevice(values)));
  }
}

TEST_CASE("rows in a GPU's memory begin and are updated to the same bits as on the host",
          "[gpu_rows]") {
  for (const std::string& optimizer : Optimizers()) {
    CAPTURE(optimizer);
    GpuShards gpu;
    const auto there = gpu.Make(Table(optimizer)), here = Make(Table(optimizer));
    CHECK(there->rows_on() == gpu.device()->device());
    CheckSame(*there, *here);
    Train(12, &gpu, there.get(), here.get());
    CheckSame(*there, *here);
    CHECK(gpu.lost().empty());
  }
}

TEST_CASE("every optimizer is one of a GPU's, or is refused there", "[gpu_rows]") {
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    const std::string kind(info.kind);
    CAPTURE(kind);
    const std::vector<std::string> known = Optimizers();
    const bool listed = std::find(known.begin(), known.end(), kind) != known.end();
    CHECK(listed == GpuShards().Create(Table(kind)).ok());
  }
}

TEST_CASE("a row that an update names twice is updated twice, in order, on a GPU too",
          "[gpu_rows]") {
  GpuShards gpu;
  const auto there = gpu.Make(Table("adagrad")), here = Make(Table("adagrad"));
  const std::vector<int64_t> ids = {3, 5, 3, 3, 5, 9, 3};
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor values = RandomTensor(Shape{7, kDim}, step);
    Apply(here.get(), Gradient(*here, ids, values));
    Apply(there.get(), Gradient(*there, ids, step == 1 ? gpu.OnDevice(values) : values));
  }
  CheckSame(*there, *here);
}

TEST_CASE("rows are looked up on the host and on the device, after all updates before",
          "[gpu_rows]") {
  GpuShards gpu;
  const auto there = gpu.Make(Table("sgd")), here = Make(Table("sgd"));
  Train(5, &gpu, there.get(), here.get());
  for (const std::vector<int64_t>& ids : {IdsOfStep(4), {4, 4, 0}, {}}) {
    const std::vector<float> wanted = ValuesOf<float>(here->Gather(Ids(ids)).value());
    CHECK(ValuesOf<float>(there->Gather(Ids(ids)).value()) == wanted);
    const Tensor rows = there->GatherOnDevice(Ids(ids)).value();
    CHECK(rows.device() == there->rows_on());
    CHECK(ValuesOf<float>(gpu.OnHost(rows)) == wanted);
  }
  CHECK(ValuesOf<float>(there->Read().value()) == ValuesOf<float>(here->Read().value()));
  CHECK_FALSE(there->Gather(Ids({kRows})).ok());
  CHECK_FALSE(there->GatherOnDevice(Ids({-1})).ok());
}

TEST_CASE("rows that are written by hand are there, and count as changed", "[gpu_rows]") {
  GpuShards gpu;
  const auto there = gpu.Make(Table("adagrad")), here = Make(Table("adagrad"));
  for (Shard* shard : {there.get(), here.get()}) {
    REQUIRE(shard->WriteRows(40, RandomTensor(Shape{200, kDim}, 3)).ok());
    REQUIRE(shard->WriteRowsAt({9, 2}, RandomTensor(Shape{2, kDim}, 4), 1).ok());
  }
  CheckSame(*there, *here);
}

TEST_CASE("a snapshot of rows in a GPU's memory is as it was, whatever is updated meanwhile",
          "[gpu_rows]") {
  for (const std::string optimizer : {"adagrad", "rowwise_adagrad"}) {
    GpuShards gpu;
    const auto there = gpu.Make(Table(optimizer)), here = Make(Table(optimizer));
    Train(4, &gpu, there.get(), here.get());
    const auto of_there = there->Snapshot(), of_here = here->Snapshot();
    Train(6, &gpu, there.get(), here.get());
    REQUIRE(there->WriteRows(150, RandomTensor(Shape{20, kDim}, 1)).ok());
    for (int p = 0; p < of_here->parts(); ++p) {
      INFO(of_here->part(p).name);
      const Tensor a = of_there->ReadRows(0, kRows, p).value();
      const Tensor b = of_here->ReadRows(0, kRows, p).value();
      CHECK(std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
      // A few bytes from the middle of a row on, and rows of a list.
      const int64_t bytes = of_here->tensor_bytes(p), begin = bytes / 3 + 1, n = bytes / 2;
      std::string x(static_cast<size_t>(n), 0), y = x;
      REQUIRE(of_there->CopyBytes(begin, n, p, x.data()).ok());
      REQUIRE(of_here->CopyBytes(begin, n, p, y.data()).ok());
      CHECK(x == y);
      const std::vector<int64_t> rows = {1, 7, 100, 106, 299};
      const int64_t listed = bytes / kRows * 5 - 3;
      REQUIRE(of_there->CopyRows(rows, 2, listed - 2, p, x.data()).ok());
      REQUIRE(of_here->CopyRows(rows, 2, listed - 2, p, y.data()).ok());
      CHECK(x == y);
    }
  }
}

TEST_CASE("updates and reads go in pieces where the GPU has no memory for them", "[gpu_rows]") {
  constexpr int64_t kMany = 16384, kWide = 64;
  device::FakeDeviceOptions options;
  const proto::ShardSpec spec = Table("adagrad", kMany, kWide);
  // The block, what is set aside, and next to nothing.
  options.memory_bytes = kMany * kWide * 2 * sizeof(float) + (2 << 20);
  GpuShards gpu(options);
  const auto there = gpu.Make(spec), here = Make(spec);
  std::vector<int64_t> ids(kMany);
  for (int64_t i = 0; i < kMany; ++i) ids[static_cast<size_t>(i)] = (i * 7919) % kMany;
  const Tensor values = RandomTensor(Shape{kMany, kWide}, 1);
  Apply(here.get(), Gradient(*here, ids, values));
  Apply(there.get(), Gradient(*there, ids, values));
  CHECK(gpu.lost().empty());
  CheckSame(*there, *here);
  CHECK(ValuesOf<float>(there->Gather(Ids(ids)).value()) ==
        ValuesOf<float>(here->Gather(Ids(ids)).value()));
  const absl::Status short_of_memory = there->GatherOnDevice(Ids(ids)).status();
  CHECK(short_of_memory.code() == absl::StatusCode::kResourceExhausted);
  INFO(short_of_memory.ToString());
  CHECK(absl::StrContains(short_of_memory.message(), "no memory for"));
}

TEST_CASE("rows that are too wide for a GPU's pieces are refused, and others are not",
          "[gpu_rows]") {
  const absl::Status refused = GpuShards().Create(Table("adagrad", 3, 65537)).status();
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  INFO(refused.ToString());
  CHECK(absl::StrContains(refused.message(), "variable 'users': a row with its slots takes"));
  GpuShards gpu;
  const auto there = gpu.Make(Table("adagrad", 3, 65536)), here = Make(Table("adagrad", 3, 65536));
  CheckSame(*there, *here);
}

TEST_CASE("a table that does not fit into the GPU's memory is refused, and says how large it is",
          "[gpu_rows]") {
  device::FakeDeviceOptions options;
  options.memory_bytes = 4 << 20;
  const absl::Status refused = GpuShards(options).Create(Table("adagrad", 100000)).status();
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  INFO(refused.ToString());
  CHECK(absl::StrContains(refused.message(), "variable 'users', 100000 rows"));
}

TEST_CASE("what rows in a GPU's memory cannot do is refused when the table is made", "[gpu_rows]") {
  const auto [change, says] = GENERATE(table<std::function<void(proto::ShardSpec*)>, std::string>({
      {[](proto::ShardSpec* s) { s->mutable_variable()->set_table(false); }, "only of embedding"},
      {[](proto::ShardSpec* s) {
         s->mutable_variable()->set_dtype(static_cast<int>(DType::kBF16));
       },
       "wanted f32, found bf16"},
      {[](proto::ShardSpec* s) { s->mutable_variable()->mutable_optimizer()->set_kind("adam"); },
       "lazy_adam moves those that the update names"},
      {[](proto::ShardSpec* s) { s->mutable_variable()->mutable_optimizer()->set_ema_decay(0.9); },
       "ema_decay"},
      {[](proto::ShardSpec* s) {
         s->mutable_variable()->mutable_optimizer()->set_delay_compensation(0.1);
       },
       "delay_compensation"},
  }));
  proto::ShardSpec spec = Table("adagrad");
  change(&spec);
  const absl::Status refused = GpuShards().Create(spec).status();
  CAPTURE(refused.ToString(), says);
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(refused.message(), "device: gpu"));
  CHECK(absl::StrContains(refused.message(), says));
}

TEST_CASE("only gradients of rows update what is in a GPU's memory; all else is refused",
          "[gpu_rows]") {
  GpuShards gpu;
  const auto there = gpu.Make(Table("sgd"));
  const Tensor all = RandomTensor(Shape{kRows, kDim}, 1), one = RandomTensor(Shape{1, kDim}, 1);
  for (const Kind kind : {Kind::kDense, Kind::kAssign, Kind::kAssignAdd}) {
    CHECK_FALSE(there->Validate(UpdateOf(kind, 1, all)).ok());
  }
  CHECK_FALSE(there->Validate(UpdateOf(Kind::kScatterAdd, 1, one, Ids({0}))).ok());
  CHECK_FALSE(there->Validate(UpdateOf(Kind::kSparse, 1, one, Ids({kRows}))).ok());
  CHECK_FALSE(there->Validate(UpdateOf(Kind::kSparse, 1, one, Ids({0, 1}))).ok());
  CHECK(there->Validate(UpdateOf(Kind::kSparse, 1, one, Ids({0}))).ok());
}

TEST_CASE("a PS whose GPUs cannot be opened says for which table, and why", "[gpu_rows]") {
  proto::ShardSpec spec = Table("sgd");
  spec.mutable_variable()->set_device(kOnGpu);
  RowDevices broken([] { return absl::NotFoundError("there is no driver"); }, 0,
                    &testing::ClusterOps(), nullptr);
  RowDevices none(
      [] {
        return std::make_shared<const device::DeviceSet>(
            std::vector<std::shared_ptr<device::DeviceRuntime>>{}, "there is no driver");
      },
      0, &testing::ClusterOps(), nullptr);
  for (RowDevices* devices : {&broken, &none}) {
    const absl::Status refused = Shard::Create(spec, Shard::Fill::kInitialize, devices).status();
    INFO(refused.ToString());
    CHECK(absl::StrContains(refused.message(), "variable 'users' is to be in the memory of a GPU"));
    CHECK(absl::StrContains(refused.message(), ": there is no driver"));
  }
}

TEST_CASE("a PS without a GPU refuses a table that is to be in its memory", "[gpu_rows]") {
  proto::ShardSpec spec = Table("sgd");
  spec.mutable_variable()->set_device(kOnGpu);
  RowDevices none([] { return std::make_shared<const device::DeviceSet>(); }, 0,
                  &testing::ClusterOps(), nullptr);
  for (RowDevices* devices : {&none, static_cast<RowDevices*>(nullptr)}) {
    const absl::Status refused = Shard::Create(spec, Shard::Fill::kInitialize, devices).status();
    INFO(refused.ToString());
    CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(refused.message(), "variable 'users' is to be in the memory of a GPU"));
  }
}

TEST_CASE("when the GPU is lost, that is told once, and rows are refused", "[gpu_rows]") {
  GpuShards gpu;
  const auto there = gpu.Make(Table("sgd"));
  gpu.device()->Break();
  const Tensor one = RandomTensor(Shape{1, kDim}, 1);
  for (int i = 0; i < 2; ++i) Apply(there.get(), Gradient(*there, {3}, one));
  CHECK(device::IsDeviceLost(there->Gather(Ids({3})).status()));
  CHECK(device::IsDeviceLost(there->GatherOnDevice(Ids({3})).status()));
  CHECK(gpu.lost().size() == 1);
}

TEST_CASE("a snapshot that a lost GPU cannot be asked for is an error, not the end of the process",
          "[gpu_rows]") {
  GpuShards gpu;
  const auto there = gpu.Make(Table("sgd"));
  const auto snapshot = there->Snapshot();
  gpu.device()->Break();
  Apply(there.get(), Gradient(*there, {3}, RandomTensor(Shape{1, kDim}, 1)));
  CHECK(device::IsDeviceLost(snapshot->ReadRows(0, 5, 0).status()));
  char to[16];
  CHECK(device::IsDeviceLost(snapshot->CopyBytes(0, sizeof(to), 0, to)));
}

// --- in a PS

proto::ShardSpec OnGpu(proto::ShardSpec spec) {
  spec.mutable_variable()->set_device(kOnGpu);
  return spec;
}

graph::Function Step() {
  graph::GraphBuilder b("step", &testing::ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Argument("rows", DType::kF32, Shape{kUnknownDim, kDim});
  b.Target("ApplySparse", {ids, rows}, testing::ShardOf(1));
  auto function = b.Finish();
  REQUIRE(function.ok());
  return *std::move(function);
}

struct World {
  testing::FakeGpu gpu;
  testing::PsDaemon ps{testing::PsDaemon::Options{.open_devices = [this] {
    return std::make_shared<const device::DeviceSet>(
        std::vector<std::shared_ptr<device::DeviceRuntime>>{gpu.shared()});
  }}};

  void Train(ClosureId first, ClosureId last) {
    auto worker = ps.ConnectWorker(0);
    for (ClosureId c = first; c <= last; ++c) {
      const std::vector<int64_t> ids = IdsOfStep(static_cast<int64_t>(c));
      worker->Send(ps.Frame(1, c, {Ids(ids), RandomTensor(Shape{6, kDim}, c)}));
      ps.env.step_pool.RunAll();
      const auto reply = function::DecodeSegmentReply(worker->Receive());
      REQUIRE(reply.ok());
      REQUIRE(reply->status.ok());
    }
  }
};

TEST_CASE("a checkpoint of rows in a GPU's memory is restored there and on the host, and back",
          "[gpu_rows]") {
  const DataFiles files;
  World a, b;
  proto::ShardSpec spec = Table("adagrad");
  CHECK(a.ps.Status().gpus().empty());  // none is opened before a table wants one
  REQUIRE(a.ps.Create({OnGpu(spec)}).ok());
  REQUIRE(a.ps.Status().gpus_size() == 1);
  REQUIRE(a.ps.Register(1, Step()).ok());
  a.Train(1, 5);
  std::filesystem::create_directory(files.Path("c"));
  auto saved = a.ps.Save(files.Path("c"), {1});
  REQUIRE(saved.ok());
  const std::vector<std::string> wanted = {*a.ps.Rows(spec, 0), *a.ps.Rows(spec, 1)};
  const bool on_gpu = GENERATE(true, false);
  CAPTURE(on_gpu);
  saved->mutable_shards(0)->mutable_shard()->mutable_variable()->set_device(on_gpu ? kOnGpu : "");
  REQUIRE(b.ps.Restore(files.Path("c"), *saved).ok());
  CHECK(*b.ps.Rows(spec, 0) == wanted[0]);
  CHECK(*b.ps.Rows(spec, 1) == wanted[1]);
  // Both go on to the same bits.
  REQUIRE(b.ps.Register(1, Step()).ok());
  a.Train(6, 9);
  b.Train(6, 9);
  CHECK(*b.ps.Rows(spec, 0) == *a.ps.Rows(spec, 0));
  CHECK(*b.ps.Rows(spec, 1) == *a.ps.Rows(spec, 1));
}

TEST_CASE("a PS without a GPU that is to restore a table there says that it is the configuration",
          "[gpu_rows]") {
  const DataFiles files;
  World a;
  REQUIRE(a.ps.Create({OnGpu(Table("adagrad"))}).ok());
  std::filesystem::create_directory(files.Path("c"));
  const auto saved = a.ps.Save(files.Path("c"), {1});
  REQUIRE(saved.ok());
  testing::PsDaemon without;
  const absl::Status created = without.Create({OnGpu(Table("adagrad"))});
  const absl::Status restored = without.Restore(files.Path("c"), *saved);
  for (const absl::Status& refused : {created, restored}) {
    INFO(refused.ToString());
    REQUIRE(GetDetail(refused).has_value());
    CHECK(GetDetail(refused)->cause == ErrorCause::kConfiguration);
    CHECK(absl::StrContains(refused.message(), "this parameter server has none"));
  }
}

TEST_CASE("a checkpoint fails when the GPU is lost, and the PS says why", "[gpu_rows]") {
  const DataFiles files;
  World a;
  REQUIRE(a.ps.Create({OnGpu(Table("adagrad"))}).ok());
  REQUIRE(a.ps.Register(1, Step()).ok());
  a.Train(1, 3);
  a.gpu.device()->Break();
  std::filesystem::create_directory(files.Path("c"));
  const absl::Status failed = a.ps.Save(files.Path("c"), {1}).status();
  INFO(failed.ToString());
  CHECK_FALSE(failed.ok());
  CHECK(absl::StrContains(failed.message(), "was broken"));
}

}  // namespace
}  // namespace coxswain::ps
