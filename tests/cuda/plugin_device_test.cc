// The plugin's kernels behind DeviceRuntime, placement, copies and the executor, as a worker uses
// them.
#include "runtime/device/plugin_device.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

// Entries, and rows that they are summed to.
struct SumSize {
  int64_t entries, rows, width = 8;
};

// The sums of these sizes in one function, and the last one's rows summed once more.
graph::Function Sums(const std::vector<SumSize>& sizes) {
  graph::GraphBuilder b("sums", &AllOps());
  Output sum;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto& [entries, rows, width] = sizes[i];
    const Output data = b.Argument(absl::StrCat("data", i), DType::kF32, Shape{entries, width});
    const Output ids = b.Argument(absl::StrCat("ids", i), DType::kI32, Shape{entries});
    const Output like = b.Argument(absl::StrCat("like", i), DType::kF32, Shape{rows, width});
    // The gradient is made on the device, so that its memory goes back to the stream at once.
    sum = b.Op("SegmentSumLike", {b.Op("Neg", {data}), ids, like}, {}, absl::StrCat("sum", i));
    b.Result(absl::StrCat("y", i), sum);
  }
  const int64_t rows = sizes.back().rows;
  const Output ids = b.Argument("again", DType::kI32, Shape{rows});
  b.Result("all", b.Op("SegmentSumLike", {sum, ids, sum}));
  return b.Finish().value();
}

std::vector<Tensor> ArgumentsOf(const std::vector<SumSize>& sizes) {
  std::vector<Tensor> arguments;
  uint64_t seed = 1;
  for (const auto& [entries, rows, width] : sizes) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < entries; ++i) {
      ids.push_back(static_cast<int32_t>(i % 3 == 0 ? rows / 2 : (i * 7919) % rows));
    }
    arguments.push_back(RandomF32({entries, width}, seed++));
    arguments.push_back(Tensor::FromVector(ids, Shape{entries}).value());
    arguments.push_back(Tensor(DType::kF32, Shape{rows, width}));
  }
  arguments.push_back(
      I32({sizes.back().rows}, std::vector<int32_t>(static_cast<size_t>(sizes.back().rows), 0)));
  return arguments;
}

TEST_CASE("sums by key that follow each other have the same bits as each alone") {
  const auto gpu = TestedGpu();
  if (gpu == nullptr) return;
  std::vector<SumSize> sizes = {{100, 5}, {0, 3}, {1, 1}, {5000, 700}, {33, 2}, {64, 9, 3}, {0, 7}};
  for (int64_t i = 0; i < 40; ++i) sizes.push_back({50 + 40 * i, 2 + 3 * i});
  sizes.push_back({1500, 600});
  const auto arguments = ArgumentsOf(sizes);
  const auto together = gpu->Run(Sums(sizes), arguments);
  INFO(together.status().ToString());
  REQUIRE(together.ok());
  for (size_t i = 0; i < sizes.size(); ++i) {
    INFO("sum " << i);
    const auto alone =
        gpu->Run(Sums({sizes[i]}), {arguments[3 * i], arguments[3 * i + 1], arguments[3 * i + 2],
                                    ArgumentsOf({sizes[i]}).back()});
    REQUIRE(alone.ok());
    CHECK(SameBytes((*together)[i], (*alone)[0]));
    if (i + 1 == sizes.size()) CHECK(SameBytes(together->back(), alone->back()));
    double all = 0, wanted = 0;
    for (int64_t k = 0; k < (*together)[i].num_elements(); ++k) {
      all += (*together)[i].data<float>()[k];
    }
    for (int64_t k = 0; k < arguments[3 * i].num_elements(); ++k) {
      wanted -= arguments[3 * i].data<float>()[k];
    }
    CHECK(all == Approx(wanted).margin(1e-3));
  }
}

// Rows by index, from an argument or from what the one before gave.
graph::Function Picks(int count) {
  graph::GraphBuilder b("picks", &AllOps());
  Output from;
  for (int i = 0; i < count; ++i) {
    const Output own = b.Argument(absl::StrCat("rows", i), DType::kF32, Shape{20, 8});
    const Output ids = b.Argument(absl::StrCat("ids", i), DType::kI32, Shape{20});
    from =
        b.Op("Gather", {b.Op("Neg", {i % 5 == 4 ? from : own}), ids}, {}, absl::StrCat("pick", i));
    b.Result(absl::StrCat("y", i), from);
  }
  return b.Finish().value();
}

TEST_CASE("rows by index that follow each other are those of each alone, and their faults theirs") {
  const auto gpu = TestedGpu();
  if (gpu == nullptr) return;
  constexpr int kCount = 70;  // more than go together
  std::vector<Tensor> arguments, expected;
  for (int i = 0; i < kCount; ++i) {
    std::vector<int32_t> ids;
    for (int k = 0; k < 20; ++k) ids.push_back((k * 7 + i) % 20);
    arguments.push_back(RandomF32({20, 8}, static_cast<uint64_t>(i)));
    arguments.push_back(I32({20}, ids));
    const Tensor& from = i % 5 == 4 ? expected.back() : arguments[arguments.size() - 2];
    Tensor rows(DType::kF32, Shape{20, 8});
    for (int k = 0; k < 20; ++k) {
      for (int e = 0; e < 8; ++e) {
        rows.mutable_data<float>()[k * 8 + e] =
            -from.data<float>()[ids[static_cast<size_t>(k)] * 8 + e];
      }
    }
    expected.push_back(rows);
  }
  const auto found = gpu->Run(Picks(kCount), arguments);
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  for (size_t i = 0; i < expected.size(); ++i) CHECK(SameBytes((*found)[i], expected[i]));
  std::vector<Tensor> wrong = arguments;
  wrong[2 * 41 + 1] = I32({20}, std::vector<int32_t>(20, 20));
  const absl::Status fault = gpu->Run(Picks(kCount), wrong).status();
  INFO(fault.ToString());
  CHECK(absl::StrContains(fault.message(), "node 'pick41' (Gather)"));
}

TEST_CASE("a wrong key is found in the sum that it belongs to, of many that follow each other") {
  const auto gpu = TestedGpu();
  if (gpu == nullptr) return;
  const std::vector<SumSize> sizes = {{10, 5}, {20, 6}, {30, 7}};
  auto arguments = ArgumentsOf(sizes);
  arguments[4].mutable_data<int32_t>()[17] = 6;
  const absl::Status wrong = gpu->Run(Sums(sizes), arguments).status();
  CHECK(absl::StrContains(wrong.message(), "node 'sum1' (SegmentSumLike)"));
  CHECK(absl::StrContains(wrong.message(), "wanted 0 to 5, found 6"));
  CHECK(gpu->Run(Sums(sizes), ArgumentsOf(sizes)).ok());
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
