// A worker and a PS of one process whose table is in the memory of their GPU, a fake one: what
// crosses the bus, and that nothing is lost or mixed up.
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "ps_server/ps_service.h"
#include "runtime/base/not_finite.h"
#include "runtime/device/fake_device.h"
#include "runtime/function/partition.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/registry.h"
#include "worker_server/worker_service.h"

namespace coxswain::worker {
namespace {

using namespace testing;

constexpr Epoch kEpoch = 9;
constexpr int64_t kRows = 500, kDim = 32, kBatch = 200;

// In f32, 26 KB; more than all else of a step.
constexpr int64_t kRowBytes = kBatch * kDim * 4;

proto::ShardSpec Table(bool on_gpu) {
  proto::VariableSpec variable = VariableOf("table", {kRows, kDim}, true, OptimizerOf("adagrad"));
  variable.mutable_initializer()->set_kind("normal");
  variable.mutable_initializer()->set_stddev(0.1);
  variable.mutable_initializer()->set_seed(3);
  if (on_gpu) variable.set_device("gpu");
  return WholeOf(variable, 0);
}

// Pulls each row towards a function of the others; the loss comes back.
graph::Function Step(bool on_gpu, bool returns_rows) {
  graph::GraphBuilder b("step", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  Attrs read = ReadOf(0, Shape{kRows, kDim}), update = ShardOf(0);
  if (on_gpu) read[function::kOnGpuAttr] = update[function::kOnGpuAttr] = true;
  const Output scale = b.Argument("scale", DType::kF32, Shape{});
  const Output rows = b.Op("GatherShard", {ids}, read);
  const Output error = b.Op("Mul", {b.Op("Sub", {b.Op("Tanh", {rows}), b.Scalar(0.5F)}), scale});
  const Output loss = b.Op("ReduceSum", {b.Op("Mul", {error, error})});
  const Attrs checked = {{"variable", "table"}, {"strategy", "mod"}, {"index", 0},
                         {"count", 1},          {"rows", kRows},     {"row_begin", 0}};
  b.Target("ApplySparse", {ids, b.Op("CheckGradient", {error, ids}, checked)}, update);
  b.Result("loss", loss);
  if (returns_rows) b.Result("rows", rows);
  auto function = b.Finish();
  INFO(function.status().ToString());
  REQUIRE(function.ok());
  return *std::move(function);
}

struct World {
  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  TestEnv env;
  std::shared_ptr<device::FakeDevice> gpu;
  std::unique_ptr<ps::PsService> ps;
  std::unique_ptr<WorkerService> worker;
  std::unique_ptr<FakeCoordinator> of_ps, of_worker;

  explicit World(bool table_on_gpu, bool returns_rows = false) {
    gpu = *device::FakeDevice::Make(&env, {});
    const auto devices = std::make_shared<const device::DeviceSet>(
        std::vector<std::shared_ptr<device::DeviceRuntime>>{gpu});
    cluster::DaemonOptions options{"ps", 0, "ps"};
    options.open_devices = [devices] { return devices; };
    ps = std::make_unique<ps::PsService>(&env, transport.get(), &ClusterOps(), options);
    options = {"worker", 0, "worker"};
    options.devices = devices;
    worker = std::make_unique<WorkerService>(&env, transport.get(), &ClusterOps(), options);
    REQUIRE(ps->Start().ok());
    REQUIRE(worker->Start().ok());
    of_ps = std::make_unique<FakeCoordinator>(transport.get(), "ps", kEpoch);
    of_worker = std::make_unique<FakeCoordinator>(transport.get(), "worker", kEpoch);
    proto::ControlRequest request;
    request.mutable_setup_ps()->set_generation(1);
    of_ps->Must(request);
    *request.mutable_create_shards()->add_shards() = Table(table_on_gpu);
    of_ps->Must(request);
    auto partition =
        function::PartitionFunction(Step(table_on_gpu, returns_rows), 1, PsOfSameNumber);
    REQUIRE(partition.ok());
    request.Clear();
    request.mutable_register_plan()->set_plan(1);
    for (const graph::Function& segment : partition->segments[0]) {
      *request.mutable_register_plan()->add_segments() = graph::ToProto(segment);
    }
    of_ps->Must(request);
    request.Clear();
    request.mutable_setup_worker()->set_generation(1);
    request.mutable_setup_worker()->add_ps_addresses("ps");
    request.mutable_setup_worker()->add_ps_incarnations(ps->incarnation());
    of_worker->Must(request);
    request.Clear();
    request.mutable_register_plan()->set_plan(1);
    *request.mutable_register_plan()->mutable_worker() = graph::ToProto(partition->worker);
    request.mutable_register_plan()->add_sources();
    request.mutable_register_plan()->add_sources()->set_argument(1);
    of_worker->Must(request);
  }

  std::vector<Tensor> Run(ClosureId id) {
    function::ClosureReply done = TryRun(id);
    INFO(done.status.ToString());
    REQUIRE(done.status.ok());
    return std::move(done.results);
  }

  function::ClosureReply TryRun(ClosureId id, float scale = 1) {
    function::ClosureRequest closure;
    closure.closure = id;
    closure.plan = 1;
    closure.attempt = 1;
    std::vector<int64_t> ids(kBatch);
    for (int64_t i = 0; i < kBatch; ++i) {
      ids[static_cast<size_t>(i)] = (i * 7 + static_cast<int64_t>(id)) % kRows;
    }
    closure.arguments.push_back(Tensor::FromVector(ids));
    closure.arguments.push_back(Tensor::Scalar(scale));
    of_worker->Run(closure);
    return of_worker->TakeDone();
  }
};

TEST_CASE("a step with a table in the GPU's memory brings neither rows nor gradients over the bus",
          "[worker][gpu_rows]") {
  World host(false), device(true);
  for (ClosureId id = 1; id <= 6; ++id) {
    const auto before = device.gpu->stats();
    const float wanted = host.Run(id)[0].values<float>()[0];
    CHECK(device.Run(id)[0].values<float>()[0] == wanted);  // so all updates were the same
    const auto after = device.gpu->stats();
    // Ids, twice, and a few numbers.
    CHECK(after.bytes_to_device - before.bytes_to_device < kRowBytes / 4);
    CHECK(after.bytes_to_host - before.bytes_to_host < kRowBytes / 4);
  }
  CHECK(host.gpu->stats().bytes_to_device >= 6 * kRowBytes);
  CHECK(host.gpu->stats().bytes_to_host >= 6 * kRowBytes);
}

TEST_CASE(
    "a gradient that is not finite is found on the GPU, named as on the host, and not applied",
    "[worker][gpu_rows]") {
  World host(false), device(true);
  host.Run(1);
  device.Run(1);
  const float bad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  const absl::Status wanted = host.TryRun(2, bad).status, found = device.TryRun(2, bad).status;
  CHECK_FALSE(wanted.ok());
  CHECK(found.code() == wanted.code());
  CHECK(absl::StrContains(found.message(), "table 'table', id "));
  CHECK(absl::StrContains(found.message(), "; it is not applied"));
  REQUIRE(GetNotFinite(found).has_value());
  CHECK(GetNotFinite(found)->variable == "table");
  CHECK(GetNotFinite(found)->id.has_value());
  CHECK(ValuesOf<float>(device.Run(3)[0]) == ValuesOf<float>(host.Run(3)[0]));
}

TEST_CASE("rows that the host wants come there, though the table is in the GPU's memory",
          "[worker][gpu_rows]") {
  World host(false, true), device(true, true);
  for (ClosureId id = 1; id <= 3; ++id) {
    const std::vector<Tensor> wanted = host.Run(id), found = device.Run(id);
    REQUIRE(found.size() == 2);
    CHECK(found[1].device() == Device{});
    CHECK(ValuesOf<float>(found[1]) == ValuesOf<float>(wanted[1]));
  }
}

}  // namespace
}  // namespace coxswain::worker
