// A worker with GPUs (fake ones), among a coordinator and a PS that the test plays.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "runtime/device/fake_device.h"
#include "runtime/function/partition.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/registry.h"
#include "worker_server/worker_service.h"

namespace coxswain::worker {
namespace {

using namespace testing;

constexpr Epoch kEpoch = 9;

struct World {
  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  TestEnv env;
  FakePs ps{transport.get(), "ps:0"};
  std::vector<device::FakeDevice*> gpus;
  Mailbox<absl::Status> lost;
  std::unique_ptr<WorkerService> worker;
  std::unique_ptr<FakeCoordinator> coordinator;

  explicit World(int num_gpus) {
    std::vector<std::shared_ptr<device::DeviceRuntime>> devices;
    for (int i = 0; i < num_gpus; ++i) {
      device::FakeDeviceOptions options;
      options.index = i;
      auto device = device::FakeDevice::Make(&env, options);
      REQUIRE(device.ok());
      gpus.push_back(device->get());
      devices.push_back(*std::move(device));
    }
    cluster::DaemonOptions options{"worker", 0, "worker"};
    options.devices = std::make_shared<const device::DeviceSet>(std::move(devices));
    options.device_lost = [this](absl::Status status) { lost.Put(std::move(status)); };
    worker = std::make_unique<WorkerService>(&env, transport.get(), &ClusterOps(), options);
    REQUIRE(worker->Start().ok());
    coordinator = std::make_unique<FakeCoordinator>(transport.get(), "worker", kEpoch);
    proto::ControlRequest request;
    request.mutable_setup_worker()->set_generation(1);
    request.mutable_setup_worker()->add_ps_addresses("ps:0");
    request.mutable_setup_worker()->add_ps_incarnations(11);
    coordinator->Must(request);
  }
};

// Three times the sum of the rows. The product is pinned to `pin`, unless that is empty.
proto::ControlRequest Plan(PlanId id, DeviceChoice device, const std::string& pin = "") {
  graph::GraphBuilder b("rows", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Op("GatherShard", {ids}, ReadOf(0, Shape{100, 1}));
  const Output sum = b.Op("ReduceSum", {rows});
  {
    const graph::GraphBuilder::DeviceScope scope(&b, pin);
    b.Result("sum", b.Op("Mul", {sum, b.Scalar(3)}, {}, "product"));
  }
  auto function = b.Finish();
  REQUIRE(function.ok());
  function->device = device;
  auto partition = function::PartitionFunction(*function, 1, PsOfSameNumber);
  REQUIRE(partition.ok());
  proto::ControlRequest request;
  request.mutable_register_plan()->set_plan(id);
  *request.mutable_register_plan()->mutable_worker() = graph::ToProto(partition->worker);
  request.mutable_register_plan()->add_sources();
  return request;
}

function::ClosureRequest Closure(ClosureId id, PlanId plan) {
  function::ClosureRequest closure;
  closure.closure = id;
  closure.plan = plan;
  closure.attempt = 1;
  closure.arguments.push_back(Tensor::FromVector<int64_t>({3, 5}));
  return closure;
}

void AnswerRows(const FakePs::Frame& frame) {
  frame.Answer({Tensor::FromVector<float>({1, 2}, Shape{2, 1}).value()});
}

TEST_CASE("a worker computes on its GPU, unless the job wants the CPU", "[worker][device]") {
  World w(1);
  const auto choice = GENERATE(DeviceChoice::kAuto, DeviceChoice::kGpu, DeviceChoice::kCpu);
  w.coordinator->Must(Plan(1, choice));
  w.coordinator->Run(Closure(1, 1));
  AnswerRows(w.ps.frames.Take("a frame"));
  const function::ClosureReply done = w.coordinator->TakeDone();
  INFO(done.status.ToString());
  REQUIRE(done.status.ok());
  CHECK(done.results[0].values<float>()[0] == 9);
  CHECK((w.gpus[0]->stats().ops > 0) == (choice != DeviceChoice::kCpu));
}

TEST_CASE("a worker without a GPU refuses a function that is to run on one", "[worker][device]") {
  World w(0);
  const absl::Status refused =
      cluster::FromProto(w.coordinator->Request(Plan(1, DeviceChoice::kGpu)).status());
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(refused.message(), "/job:worker/task:0 has none"));
  CHECK(CauseOf(refused) == ErrorCause::kConfiguration);
  w.coordinator->Must(Plan(2, DeviceChoice::kAuto));
}

TEST_CASE("closures in flight are dealt out to the GPUs", "[worker][device]") {
  World w(2);
  w.coordinator->Must(Plan(1, DeviceChoice::kAuto));
  w.coordinator->Run(Closure(1, 1));
  const auto first = w.ps.frames.Take("a frame");
  w.coordinator->Run(Closure(2, 1));  // while the first one is under way
  const auto second = w.ps.frames.Take("another frame");
  AnswerRows(first);
  AnswerRows(second);
  for (int i = 0; i < 2; ++i) CHECK(w.coordinator->TakeDone().status.ok());
  CHECK(w.gpus[0]->stats().ops > 0);
  CHECK(w.gpus[0]->stats().ops == w.gpus[1]->stats().ops);
}

TEST_CASE("a step that is pinned to two GPUs runs on both, whichever of them it begins on",
          "[worker][device]") {
  World w(2);
  w.coordinator->Must(Plan(1, DeviceChoice::kAuto, "/device:GPU:1"));
  for (ClosureId id = 1; id <= 2; ++id) w.coordinator->Run(Closure(id, 1));
  const auto first = w.ps.frames.Take("a frame"), second = w.ps.frames.Take("another frame");
  AnswerRows(first);
  AnswerRows(second);
  for (int i = 0; i < 2; ++i) {
    const function::ClosureReply done = w.coordinator->TakeDone();
    INFO(done.status.ToString());
    REQUIRE(done.status.ok());
    CHECK(done.results[0].values<float>()[0] == 9);
  }
  // As both were under way at once, each of them began on another one.
  for (int i = 0; i < 2; ++i) {
    CHECK(w.gpus[i]->stats().copies_to_device == 1);
    CHECK(w.gpus[i]->stats().copies_from_devices > 0);
  }
}

TEST_CASE("a worker refuses a node that is pinned to a GPU that it does not have",
          "[worker][device]") {
  World w(1);
  const absl::Status refused = cluster::FromProto(
      w.coordinator->Request(Plan(1, DeviceChoice::kAuto, "/device:GPU:1")).status());
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(refused.message(), "node 'product'"));
  CHECK(absl::StrContains(refused.message(), "there is one GPU, GPU:0"));
}

TEST_CASE("when a GPU is lost its closures run elsewhere, and the worker is to end",
          "[worker][device]") {
  World w(1);
  w.coordinator->Must(Plan(1, DeviceChoice::kAuto));
  w.coordinator->Run(Closure(1, 1));
  const auto frame = w.ps.frames.Take("a frame");
  w.gpus[0]->Break();
  AnswerRows(frame);
  const function::ClosureReply failed = w.coordinator->TakeDone();
  CHECK(CauseOf(failed.status) == ErrorCause::kTaskLost);
  CHECK(TaskOf(failed.status) == "/job:worker/task:0");
  CHECK(GetDetail(failed.status)->retryable);
  CHECK(device::IsDeviceLost(w.lost.Take("that the device is lost")));
  w.coordinator->Run(Closure(2, 1));
  CHECK(CauseOf(w.coordinator->TakeDone().status) == ErrorCause::kTaskLost);
  CHECK(w.lost.empty());
}

TEST_CASE("a GPU that is found to be lost when a plan is made ends the worker, not the job",
          "[worker][device]") {
  World w(1);
  w.gpus[0]->Break();
  const absl::Status refused =
      cluster::FromProto(w.coordinator->Request(Plan(1, DeviceChoice::kAuto)).status());
  CHECK(CauseOf(refused) == ErrorCause::kTaskLost);
  CHECK(TaskOf(refused) == "/job:worker/task:0");
  CHECK(device::IsDeviceLost(w.lost.Take("that the device is lost")));
}

}  // namespace
}  // namespace coxswain::worker
