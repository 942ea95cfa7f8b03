// Work that follows each other on a stream and is started as one has the results of each alone, in
// its order.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/device.h"
#include "ps_server/row_batch.h"
#include "ps_server/shard.h"
#include "runtime/device/plugin_device.h"
#include "runtime/graph/builder.h"
#include "tests/cuda/device_run.h"
#include "tests/ops/op_case.h"
#include "tests/testing/on_device.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/registry.h"
#include "tests/testing/shards.h"

namespace coxswain::testing {
namespace {

// Kernels that f starts; only the emulated device counts them.
template <typename F>
int64_t LaunchesOf(const F& f) {
  const int64_t before = cuda::launches;
  f();
  return cuda::launches - before;
}

TEST_CASE("copies within the device are done in their order, whatever they read and write") {
  const TestedDevice* const on = OpenTestedDevice();
  if (on == nullptr) return;
  const CoxDeviceApi& api = *on->api;
  CoxError error = {};
  constexpr size_t kBytes = size_t{5} << 20;
  void *memory = nullptr, *pinned = nullptr;
  REQUIRE(api.allocate(on->device, kBytes, &memory, &error) == COX_OK);
  REQUIRE(api.allocate_pinned(on->device, kBytes, &pinned, &error) == COX_OK);
  std::vector<char> wanted(kBytes);
  for (size_t i = 0; i < kBytes; ++i) wanted[i] = static_cast<char>(i * 31 + i / 251);
  std::memcpy(pinned, wanted.data(), kBytes);
  CHECK(api.copy_to_device(on->stream, memory, pinned, kBytes, &error) == COX_OK);
  char* const device = static_cast<char*>(memory);
  std::mt19937 random(1);
  const auto copy = [&](size_t to, size_t from, size_t bytes) {
    std::memcpy(wanted.data() + to, wanted.data() + from, bytes);
    REQUIRE(api.copy_on_device(on->stream, device + to, device + from, bytes, &error) == COX_OK);
  };
  for (int i = 0; i < 400; ++i) {
    // Of any address, or of such that are copied 4 or 16 bytes at a time; often near each other.
    const size_t unit = size_t{1} << (2 * (random() % 3)), place = i % 3 == 0 ? kBytes / 2 : 4096;
    const size_t bytes = 1 + random() % 300, to = random() % place / unit * unit;
    const size_t from = (i % 3 == 0 ? kBytes / 2 : 8192) + random() % 2000 / unit * unit;
    if (i % 2 == 0) {
      copy(to, from, bytes * unit % 1500);
    } else {
      copy(from, to, bytes * unit % 1500);
    }
    if (i % 100 == 50) copy(kBytes / 2 + 4096, 0, (size_t{1} << 20) + unit);
  }
  CHECK(api.copy_to_host(on->stream, pinned, memory, kBytes, &error) == COX_OK);
  REQUIRE(api.synchronize(on->stream, &error) == COX_OK);
  CHECK(std::memcmp(pinned, wanted.data(), kBytes) == 0);
  api.free_memory(on->device, memory);
  api.free_pinned(on->device, pinned);
}

constexpr int kTables = 26;

// Looks up rows of each of many tables.
graph::Function LookUps() {
  graph::GraphBuilder b("look_ups", &AllOps());
  for (int i = 0; i < kTables; ++i) {
    const Output rows = b.Argument(absl::StrCat("rows", i), DType::kF32, Shape{10 + i, 16});
    const Output ids = b.Argument(absl::StrCat("ids", i), DType::kI64, Shape{20});
    b.Result(absl::StrCat("y", i), b.Op("Gather", {rows, ids}));
  }
  return b.Finish().value();
}

TEST_CASE("rows of many tables are looked up by one kernel, and copied by one") {
  const TestedDevice* const tested = OpenTestedDevice();
  if (tested == nullptr) return;
  Gpu gpu(env::NewRealEnv(2), device::NewPluginDevice(tested->api, 0, 0).value());
  std::vector<Tensor> arguments;
  std::vector<std::vector<int64_t>> ids;
  for (int i = 0; i < kTables; ++i) {
    arguments.push_back(RandomF32({10 + i, 16}, static_cast<uint64_t>(i)));
    ids.emplace_back();
    for (int64_t k = 0; k < 20; ++k) ids.back().push_back(k * 7 % (10 + i));
    arguments.push_back(I64({20}, ids.back()));
  }
  std::vector<Tensor> found;
  const int64_t launches = LaunchesOf([&] { found = gpu.Run(LookUps(), arguments).value(); });
  // The third copies the fault, which has another size.
  if (tested->emulated) CHECK(launches == 3);
  for (size_t i = 0; i < kTables; ++i) {
    for (size_t k = 0; k < 20; ++k) {
      const float* const wanted = arguments[2 * i].data<float>() + 16 * ids[i][k];
      CHECK(std::memcmp(found[i].data<float>() + 16 * k, wanted, 16 * sizeof(float)) == 0);
    }
  }
}

TEST_CASE(
    "gradients of many tables are checked by one kernel, and what is wrong is told of the "
    "one that has it") {
  const TestedDevice* const on = OpenTestedDevice();
  if (on == nullptr) return;
  const CoxDeviceApi& api = *on->api;
  CoxError error = {};
  constexpr int64_t kRows = 40, kWidth = 16, kNumbers = kRows * kWidth;
  constexpr size_t kBytes = kTables * kNumbers * sizeof(float);
  void *memory = nullptr, *pinned = nullptr, *fault = nullptr;
  REQUIRE(api.allocate(on->device, kBytes, &memory, &error) == COX_OK);
  REQUIRE(api.allocate(on->device, sizeof(CoxFault), &fault, &error) == COX_OK);
  REQUIRE(api.allocate_pinned(on->device, kBytes, &pinned, &error) == COX_OK);
  const int32_t dtype = COX_F32;
  CoxNode node = {};
  node.op = "CheckGradient";
  node.input_dtypes = node.output_dtypes = &dtype;
  node.num_inputs = node.num_outputs = 1;
  CoxOp* op = nullptr;
  REQUIRE(api.create_op(on->device, &node, &op, &error) == COX_OK);
  for (const int wrong : {-1, 13}) {
    std::memset(pinned, 0, kBytes);
    if (wrong >= 0) static_cast<float*>(pinned)[wrong * kNumbers + 7] = INFINITY;
    REQUIRE(api.copy_to_device(on->stream, memory, pinned, kBytes, &error) == COX_OK);
    const int64_t launches = LaunchesOf([&] {
      for (int i = 0; i < kTables; ++i) {
        const int64_t dims[] = {kRows, kWidth};
        const CoxTensor tensor = {static_cast<float*>(memory) + i * kNumbers, dims, 2, dtype};
        CoxRun run = {};
        run.inputs = run.outputs = &tensor;
        run.num_inputs = run.num_outputs = 1;
        run.fault = static_cast<CoxFault*>(fault);
        run.node = 100 + i;
        REQUIRE(api.run_op(op, on->stream, &run, &error) == COX_OK);
      }
      REQUIRE(api.copy_to_host(on->stream, pinned, fault, sizeof(CoxFault), &error) == COX_OK);
    });
    if (on->emulated) CHECK(launches == 1);
    REQUIRE(api.synchronize(on->stream, &error) == COX_OK);
    CoxFault found;
    std::memcpy(&found, pinned, sizeof(found));
    CHECK(found.kind == (wrong < 0 ? COX_FAULT_NONE : COX_FAULT_NOT_FINITE));
    CHECK(found.node == (wrong < 0 ? 0 : 100 + wrong));
    CHECK(found.at == (wrong < 0 ? 0 : 7));
  }
  api.destroy_op(op);
  api.free_memory(on->device, memory);
  api.free_memory(on->device, fault);
  api.free_pinned(on->device, pinned);
}

class NeverStarts final : public cuda::PendingWork {
 public:
  cuda::Status Start(CoxStream*) override { return {COX_DEVICE_LOST, "no room for the kernel"}; }
};

// Whoever meets the error first need not be the one whose work it was.
TEST_CASE("a stream whose work was put off and could not be started is lost for everybody") {
  const TestedDevice* const on = OpenTestedDevice();
  if (on == nullptr || !on->emulated) return;
  const CoxDeviceApi& api = *on->api;
  CoxError error = {};
  CoxStream* stream = nullptr;
  CoxEvent* event = nullptr;
  float host[16] = {}, memory[16] = {}, other[16] = {};
  REQUIRE(api.create_stream(on->device, &stream, &error) == COX_OK);
  REQUIRE(api.create_event(on->device, &event, &error) == COX_OK);
  REQUIRE(api.copy_on_device(stream, other, memory, sizeof(other), &error) == COX_OK);
  REQUIRE(api.flush(stream, &error) == COX_OK);
  stream->pending = std::make_unique<NeverStarts>();
  CHECK(api.wait(stream, event, &error) == COX_DEVICE_LOST);
  CHECK(api.copy_to_device(stream, memory, host, sizeof(host), &error) == COX_DEVICE_LOST);
  CHECK(api.copy_on_device(stream, other, memory, sizeof(other), &error) == COX_DEVICE_LOST);
  CHECK(api.record(stream, event, &error) == COX_DEVICE_LOST);
  CHECK(api.synchronize(stream, &error) == COX_DEVICE_LOST);
  CHECK(std::string(error.message) == "no room for the kernel");
  api.destroy_event(event);
  api.destroy_stream(stream);
}

// A table on the host and on the device.
constexpr int kTwins = 11;
struct Twins {
  std::unique_ptr<ps::Shard> here, there;
};

std::vector<int64_t> IdsOf(const ps::Shard& shard, int64_t step) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 30 + step; ++i) ids.push_back((i * 13 + step * 5) % shard.rows());
  if (step % 4 == 3) ids.push_back(ids[2]);  // one comes twice
  return ids;
}

TEST_CASE(
    "rows of many tables are looked up and updated by one kernel each, with the host's bits") {
  const TestedDevice* const tested = OpenTestedDevice();
  if (tested == nullptr) return;
  const std::string optimizer = GENERATE(as<std::string>(), "adagrad", "rowwise_adagrad", "sgd");
  CAPTURE(optimizer);
  std::shared_ptr<device::DeviceRuntime> gpu = device::NewPluginDevice(tested->api, 0, 0).value();
  ps::RowDevices devices(
      [gpu] {
        return std::make_shared<const device::DeviceSet>(
            std::vector<std::shared_ptr<device::DeviceRuntime>>{gpu});
      },
      0, &ClusterOps(), [](const absl::Status& status) { FAIL(status.ToString()); });
  std::vector<Twins> tables;
  for (int id = 1; id <= kTwins; ++id) {
    proto::VariableSpec variable =
        VariableOf("t", {100 + 9 * id, 16}, true, OptimizerOf(optimizer));
    variable.mutable_initializer()->set_kind("normal");
    variable.mutable_initializer()->set_seed(static_cast<uint64_t>(id));
    proto::ShardSpec spec = WholeOf(variable, static_cast<ShardId>(id));
    Twins& twins = tables.emplace_back();
    twins.here = Make(spec);
    spec.mutable_variable()->set_device(ps::kOnGpu);
    twins.there = ps::Shard::Create(spec, ps::Shard::Fill::kInitialize, &devices).value();
    twins.there->SetLane(1);
  }
  const auto stream = gpu->RowStream(1).value();
  for (int64_t step = 0; step < 8; ++step) {
    ps::RowBatch batch;
    std::vector<Tensor> found;
    const auto done = [&] {
      REQUIRE(batch.Run().ok());
      REQUIRE(stream->Synchronize().ok());
    };
    const int64_t look_ups = LaunchesOf([&] {
      for (const Twins& twins : tables) {
        const Tensor ids = I64({30 + step + (step % 4 == 3)}, IdsOf(*twins.here, step));
        found.push_back(twins.there->GatherOnDevice(ids, &batch).value());
      }
      done();
    });
    const int64_t updates = LaunchesOf([&] {
      for (size_t i = 0; i < tables.size(); ++i) {
        const Tensor gradient = RandomTensor(found[i].shape(), static_cast<uint64_t>(step) + i);
        const graph::Update update = UpdateOf(graph::Update::Kind::kSparse, i + 1, gradient,
                                              I64({gradient.dim(0)}, IdsOf(*tables[i].here, step)));
        const graph::Update* const one = &update;
        tables[i].here->ApplySegment(absl::MakeConstSpan(&one, 1), {});
        tables[i].there->ApplySegment(absl::MakeConstSpan(&one, 1), {}, {}, &batch);
      }
      done();
    });
    // A row that comes twice is updated twice, one after the other; the second update of a table
    // goes together with the first of the next.
    if (tested->emulated) {
      CHECK(look_ups == 1);
      CHECK(updates == (step % 4 == 3 ? kTwins + 1 : 1));
    }
  }
  for (const Twins& twins : tables) {
    for (int p = 0; p <= twins.here->optimizer().slots(); ++p) {
      const Tensor a = twins.there->ReadRows(0, twins.here->rows(), p).value();
      const Tensor b = twins.here->ReadRows(0, twins.here->rows(), p).value();
      CHECK(std::memcmp(a.raw(), b.raw(), b.bytes()) == 0);
    }
  }
}

}  // namespace
}  // namespace coxswain::testing
