// The plugin's kernels behind DeviceRuntime, placement, copies and the executor, as a worker uses
// them.
#include "runtime/device/plugin_device.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "runtime/graph/builder.h"
#include "tests/cuda/device_run.h"
#include "tests/ops/op_case.h"
#include "tests/ops/op_run.h"
#include "tests/testing/on_device.h"

namespace coxswain::testing {
namespace {

// A GPU of the table that is tested; null when it has none.
std::unique_ptr<Gpu> TestedGpu() {
  const TestedDevice* const tested = OpenTestedDevice();
  if (tested == nullptr) return nullptr;
  auto device = device::NewPluginDevice(tested->api, 0, 0);
  INFO(device.status().ToString());
  REQUIRE(device.ok());
  return std::make_unique<Gpu>(env::NewRealEnv(2), *std::move(device));
}

TEST_CASE("every op computes through the plugin what its cases say") {
  const auto gpu = TestedGpu();
  if (gpu == nullptr) return;
  const RunOnGpu there(gpu.get());
  // Not every CPU has bf16, which the check compares with; parity_test.cc rounds the inputs.
  CheckAllCases(CheckForward,
                [](const OpCase& op_case) { return !op_case.attrs.contains("compute"); });
}

TEST_CASE("a fault on the plugin's device becomes an error that names the node") {
  const auto gpu = TestedGpu();
  if (gpu == nullptr) return;
  graph::GraphBuilder b("f", &AllOps());
  const Output rows = b.Argument("rows", DType::kF32, Shape{3, 2});
  const Output places = b.Argument("places", DType::kI64, Shape{2});
  b.Result("y", b.Op("Gather", {rows, places}, {}, "pick"));
  auto f = b.Finish();
  REQUIRE(f.ok());
  const auto run = [&](int64_t place) {
    return gpu->Run(*f, {RandomF32({3, 2}, 1), I64({2}, {1, place})}).status();
  };
  const absl::Status wrong = run(3);
  CHECK(wrong.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(wrong.message(), "node 'pick' (Gather)"));
  CHECK(absl::StrContains(wrong.message(), "wanted 0 to 2, found 3"));
  CHECK(run(2).ok());
}

TEST_CASE("a function whose nodes are pinned to two of the plugin's devices runs on both") {
  const TestedDevice* const tested = OpenTestedDevice();
  if (tested == nullptr) return;
  const auto count = device::CountPluginDevices(tested->api);
  REQUIRE(count.ok());
  const auto env = env::NewRealEnv(2);
  function::CompiledFunction::Devices devices;
  for (int i = 0; i < 2; ++i) {  // with a single one: two handles on it
    auto device = device::NewPluginDevice(tested->api, i % *count, i);
    INFO(device.status().ToString());
    REQUIRE(device.ok());
    devices.push_back(*std::move(device));
  }
  graph::GraphBuilder b("f", &AllOps());
  const Output rows = b.Argument("rows", DType::kF32, Shape{3, 2});
  const Output places = b.Argument("places", DType::kI64, Shape{2});
  Output picked;
  {
    const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:0");
    picked = b.Op("Gather", {rows, places}, {}, "pick");
  }
  const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:1");
  b.Result("y", b.Op("Neg", {picked}));
  auto f = b.Finish();
  REQUIRE(f.ok());
  auto compiled = function::CompiledFunction::Compile(*f, devices);
  INFO(compiled.status().ToString());
  REQUIRE(compiled.ok());
  const Tensor values = RandomF32({3, 2}, 1);
  const auto run = [&](int64_t place) {
    return RunToTheEnd(env.get(), *compiled, {values, I64({2}, {1, place})});
  };
  for (int round = 0; round < 10; ++round) {
    const auto found = run(2);
    INFO(found.status().ToString());
    REQUIRE(found.ok());
    for (int i = 0; i < 4; ++i) {
      CHECK((*found)[0].data<float>()[i] == -values.data<float>()[2 + i]);
    }
    CHECK(absl::StrContains(run(3).status().message(), "node 'pick' (Gather)"));
  }
}

TEST_CASE("a device ends after all that its notifications hold is dropped") {
  const TestedDevice* const tested = OpenTestedDevice();
  if (tested == nullptr) return;
  auto opened = device::NewPluginDevice(tested->api, 0, 0);
  REQUIRE(opened.ok());
  std::unique_ptr<device::DeviceRuntime> device = *std::move(opened);
  auto stream = device->BorrowStream();
  REQUIRE(stream.ok());
  absl::Notification go;
  absl::Notification ended;
  // Pinned memory goes back to the device's pool, so that it has a handle on the device.
  REQUIRE((*stream)
              ->Notify([held = device->pinned()->Allocate(64).value(), &go](const absl::Status&) {
                go.WaitForNotification();
              })
              .ok());
  device->ReturnStream(*std::move(stream));
  stream = std::shared_ptr<device::DeviceStream>();
  std::thread owner([&] {
    device.reset();
    ended.Notify();
  });
  CHECK_FALSE(ended.WaitForNotificationWithTimeout(absl::Milliseconds(50)));
  go.Notify();
  owner.join();
  CHECK(ended.HasBeenNotified());
}

}  // namespace
}  // namespace coxswain::testing
