// Devices, memory, streams and events of the C table.
#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/cuda/device_run.h"

namespace coxswain::testing {
namespace {

TEST_CASE("what is copied to a device comes back, and fresh plain memory is zero") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  const CoxDeviceApi& api = *on->api;
  CoxError error = {};
  constexpr size_t kBytes = 100003;
  void *device = nullptr, *other = nullptr, *pinned = nullptr;
  REQUIRE(api.allocate(on->device, kBytes, &device, &error) == COX_OK);
  REQUIRE(api.allocate_on(on->stream, kBytes, &other, &error) == COX_OK);
  REQUIRE(api.allocate_pinned(on->device, kBytes, &pinned, &error) == COX_OK);
  std::memset(pinned, 0x5a, kBytes);
  CHECK(api.copy_to_host(on->stream, pinned, device, kBytes, &error) == COX_OK);
  REQUIRE(api.synchronize(on->stream, &error) == COX_OK);
  std::vector<char> wanted(kBytes, 0);
  CHECK(std::memcmp(pinned, wanted.data(), kBytes) == 0);

  for (size_t i = 0; i < kBytes; ++i) wanted[i] = static_cast<char>(i * 7);
  std::memcpy(pinned, wanted.data(), kBytes);
  CHECK(api.copy_to_device(on->stream, device, pinned, kBytes, &error) == COX_OK);
  CHECK(api.copy_on_device(on->stream, other, device, kBytes, &error) == COX_OK);
  CHECK(api.fill_zero(on->stream, static_cast<char*>(other) + 10, 5, &error) == COX_OK);
  REQUIRE(api.synchronize(on->stream, &error) == COX_OK);
  CHECK(api.copy_to_host(on->stream, pinned, other, kBytes, &error) == COX_OK);
  REQUIRE(api.synchronize(on->stream, &error) == COX_OK);
  std::memset(wanted.data() + 10, 0, 5);
  CHECK(std::memcmp(pinned, wanted.data(), kBytes) == 0);

  api.free_memory(on->device, device);
  api.release_on(on->stream, other);
  api.free_pinned(on->device, pinned);
  api.free_memory(on->device, nullptr);
  api.free_pinned(on->device, nullptr);
}

TEST_CASE("a stream waits for what another one was asked before an event") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  const CoxDeviceApi& api = *on->api;
  CoxError error = {};
  constexpr size_t kBytes = size_t{1} << 24;
  CoxStream* second = nullptr;
  CoxEvent* event = nullptr;
  void *device = nullptr, *first_half = nullptr, *result = nullptr;
  REQUIRE(api.create_stream(on->device, &second, &error) == COX_OK);
  REQUIRE(api.create_event(on->device, &event, &error) == COX_OK);
  REQUIRE(api.allocate(on->device, kBytes, &device, &error) == COX_OK);
  REQUIRE(api.allocate_pinned(on->device, kBytes, &first_half, &error) == COX_OK);
  REQUIRE(api.allocate_pinned(on->device, kBytes, &result, &error) == COX_OK);
  std::memset(first_half, 0x11, kBytes);
  std::memset(result, 0, kBytes);
  CHECK(api.copy_to_device(on->stream, device, first_half, kBytes, &error) == COX_OK);
  CHECK(api.record(on->stream, event, &error) == COX_OK);
  CHECK(api.wait(second, event, &error) == COX_OK);
  CHECK(api.copy_to_host(second, result, device, kBytes, &error) == COX_OK);
  REQUIRE(api.synchronize(second, &error) == COX_OK);
  CHECK(std::memcmp(first_half, result, kBytes) == 0);
  api.destroy_event(event);
  api.destroy_stream(second);
  api.free_memory(on->device, device);
  api.free_pinned(on->device, first_half);
  api.free_pinned(on->device, result);
}

struct Reached {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int32_t> codes;
};

TEST_CASE("an event is reached when what was enqueued before it is done") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  const CoxDeviceApi& api = *on->api;
  CoxError error = {};
  constexpr size_t kBytes = size_t{64} << 20;
  void *memory = nullptr, *pinned = nullptr;
  CoxEvent* event = nullptr;
  REQUIRE(api.allocate(on->device, kBytes, &memory, &error) == COX_OK);
  REQUIRE(api.allocate_pinned(on->device, kBytes, &pinned, &error) == COX_OK);
  REQUIRE(api.create_event(on->device, &event, &error) == COX_OK);
  std::memset(pinned, 0x5a, kBytes);
  REQUIRE(api.copy_to_host(on->stream, pinned, memory, kBytes, &error) == COX_OK);
  REQUIRE(api.record(on->stream, event, &error) == COX_OK);
  while (api.is_reached(event) == 0) std::this_thread::yield();
  CHECK(static_cast<const char*>(pinned)[0] == 0);
  CHECK(static_cast<const char*>(pinned)[kBytes - 1] == 0);
  api.destroy_event(event);
  api.free_memory(on->device, memory);
  api.free_pinned(on->device, pinned);
}

TEST_CASE("a notification comes once, after what was enqueued before it") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  CoxError error = {};
  Reached reached;
  const auto call = [](void* context, int32_t code) {
    auto* to = static_cast<Reached*>(context);
    const std::lock_guard<std::mutex> lock(to->mutex);
    to->codes.push_back(code);
    to->changed.notify_one();
  };
  {
    // Held while the notification is asked for: the plugin calls from a thread of its own.
    std::unique_lock<std::mutex> lock(reached.mutex);
    REQUIRE(on->api->notify(on->stream, call, &reached, &error) == COX_OK);
    reached.changed.wait(lock, [&] { return !reached.codes.empty(); });
  }
  REQUIRE(on->api->synchronize(on->stream, &error) == COX_OK);
  const std::lock_guard<std::mutex> lock(reached.mutex);
  CHECK(reached.codes == std::vector<int32_t>{COX_OK});
}

TEST_CASE("a device says who it is, and one that is not there cannot be opened") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  CoxError error = {};
  CoxDeviceInfo info = {};
  REQUIRE(on->api->device_info(on->device, &info, &error) == COX_OK);
  CHECK(info.name[0] != 0);
  CHECK(info.memory_bytes > 0);
  CHECK(info.free_bytes <= info.memory_bytes);
  CoxDevice* none = nullptr;
  CHECK(on->api->open_device(4711, &none, &error) == COX_FAILED_PRECONDITION);
  CHECK(none == nullptr);
  CHECK(error.message[0] != 0);
  CoxDevice* second = nullptr;
  REQUIRE(on->api->open_device(0, &second, &error) == COX_OK);
  on->api->close_device(second);
}

TEST_CASE("more memory than there is, is refused, and the device goes on") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  CoxError error = {};
  void* memory = nullptr;
  const size_t much = size_t{1} << 50;
  CHECK(on->api->allocate(on->device, much, &memory, &error) == COX_RESOURCE_EXHAUSTED);
  CHECK(on->api->allocate_on(on->stream, much, &memory, &error) == COX_RESOURCE_EXHAUSTED);
  CHECK(memory == nullptr);
  const DeviceRun run =
      RunOnDevice(*on, {.op = "Neg", .inputs = {F32({2}, {1, -2})}}, {{DType::kF32, Shape{2}}});
  REQUIRE(run.message == "");
  CHECK(run.outputs[0].data<float>()[1] == 2.0f);
}

TEST_CASE("an op or a type without a kernel is not found") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  const std::vector<OutputType> one = {{DType::kF32, Shape{1}}};
  CHECK(CreateOnDevice(*on, {.op = "NoSuchOp", .inputs = {F32({1}, {1})}}, one) == COX_NOT_FOUND);
  CHECK(CreateOnDevice(*on, {.op = "Exp", .inputs = {I32({1}, {1})}}, one) == COX_NOT_FOUND);
  CHECK(CreateOnDevice(*on, {.op = "Exp", .inputs = {F32({1}, {1})}}, one) == COX_OK);
}

}  // namespace
}  // namespace coxswain::testing
