#include "runtime/device/fake_device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "tests/testing/on_device.h"

namespace coxswain::device {
namespace {

using testing::FakeGpu;
using testing::FakeGpus;

// What ends this process when it does `act`: the number of a signal; 0: nothing.
template <typename Act>
int SignalThatEnds(Act act) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {SIGSEGV, SIGABRT}) signal(number, SIG_DFL);  // not Catch2's
    act();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

std::shared_ptr<DeviceStream> Stream(const FakeGpu& gpu) {
  return gpu.device()->NewStream().value();
}

void Await(DeviceStream* stream) {
  absl::Notification reached;
  REQUIRE(stream->Notify([&](const absl::Status&) { reached.Notify(); }).ok());
  reached.WaitForNotification();
}

Buffer Pinned(const FakeGpu& gpu, const std::vector<float>& values) {
  Buffer buffer = gpu.device()->pinned()->Allocate(values.size() * sizeof(float)).value();
  std::memcpy(buffer.data(), values.data(), buffer.size());
  return buffer;
}
std::vector<float> Floats(const Buffer& buffer) {
  std::vector<float> values(buffer.size() / sizeof(float));
  std::memcpy(values.data(), buffer.data(), buffer.size());
  return values;
}

TEST_CASE("who touches a fake GPU's memory from the host ends there", "[device]") {
  const FakeGpu gpu;
  const auto stream = Stream(gpu);
  const Buffer buffer = stream->Allocate(64).value();
  CHECK(buffer.device() == Device{DeviceType::kGpu, 0});
  CHECK(SignalThatEnds([&] { *static_cast<volatile char*>(buffer.data()) = 1; }) == SIGSEGV);
  CHECK(SignalThatEnds([&] { (void)*static_cast<volatile char*>(buffer.data()); }) == SIGSEGV);
}

TEST_CASE("the values of a tensor on a device cannot be had on the host", "[device]") {
  const FakeGpu gpu;
  const auto stream = Stream(gpu);
  const Tensor tensor(DType::kF32, Shape{4}, stream->Allocate(16).value());
  CHECK(tensor.ToString() == "f32[4]{on GPU:0}");
  const auto values = tensor.As<float>();
  CHECK(values.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(values.status().message(), "on GPU:0"));
  CHECK(SignalThatEnds([&] { tensor.data<float>(); }) == SIGABRT);
}

TEST_CASE("a stream does what it is told in that order, and later", "[device]") {
  FakeDeviceOptions options;
  options.max_delay = absl::Milliseconds(2);
  const FakeGpu gpu(options);
  const auto stream = Stream(gpu);
  const Buffer one = Pinned(gpu, {1, 2, 3}), two = Pinned(gpu, {4, 5, 6});
  const Buffer back = Pinned(gpu, {0, 0, 0}), first = Pinned(gpu, {0, 0, 0});
  for (int round = 0; round < 20; ++round) {
    const Buffer a = stream->Allocate(12).value(), b = stream->Allocate(12).value();
    REQUIRE(stream->CopyToDevice(a, one).ok());
    REQUIRE(stream->CopyOnDevice(b, a).ok());
    REQUIRE(stream->CopyToDevice(a, two).ok());
    REQUIRE(stream->CopyToHost(first, b).ok());
    REQUIRE(stream->CopyToHost(back, a).ok());
    Await(stream.get());
    CHECK(Floats(first) == std::vector<float>{1, 2, 3});
    CHECK(Floats(back) == std::vector<float>{4, 5, 6});
  }
}

TEST_CASE("a mark is reached when what was enqueued before it is done, and not before",
          "[device]") {
  FakeDeviceOptions options;
  options.max_delay = absl::Milliseconds(1);
  const FakeGpu gpu(options);
  auto stream = Stream(gpu);
  const Buffer back = Pinned(gpu, {0}), one = Pinned(gpu, {1});
  std::unique_ptr<DeviceStream::Mark> last;
  for (int round = 0; round < 20; ++round) {
    const Buffer value = Pinned(gpu, {static_cast<float>(round)});
    const Buffer there = stream->Allocate(sizeof(float)).value();
    REQUIRE(stream->CopyToDevice(there, value).ok());
    REQUIRE(stream->CopyToHost(back, there).ok());
    auto mark = stream->SetMark().value();
    REQUIRE(stream->CopyToDevice(there, one).ok());
    while (!mark->reached()) std::this_thread::yield();
    CHECK(Floats(back) == std::vector<float>{static_cast<float>(round)});
    CHECK((last == nullptr || last->reached()));
    last = std::move(mark);
  }
  stream.reset();
  CHECK(last->reached());
}

TEST_CASE("a stream that waits for another one's goes on when that has got there", "[device]") {
  FakeDeviceOptions options;
  options.max_delay = absl::Milliseconds(2);
  const FakeGpus gpus(2, options);
  const auto pinned = [&](float value) {
    Buffer buffer = gpus.device(0)->pinned()->Allocate(sizeof(float)).value();
    *static_cast<float*>(buffer.data()) = value;
    return buffer;
  };
  const auto first = gpus.device(0)->NewStream().value();
  for (const bool same : {true, false}) {
    const auto second = gpus.device(same ? 0 : 1)->NewStream().value();
    for (int round = 0; round < 20; ++round) {
      const Buffer value = pinned(static_cast<float>(round)), back = pinned(-1);
      const Buffer a = first->Allocate(sizeof(float)).value();
      const Buffer b = second->Allocate(sizeof(float)).value();
      REQUIRE(first->CopyToDevice(a, value).ok());
      REQUIRE(second->WaitFor(first.get()).ok());
      REQUIRE(second->CopyOnDevice(b, a).ok());
      REQUIRE(second->CopyToHost(back, b).ok());
      REQUIRE(first->WaitFor(second.get()).ok());
      REQUIRE(first->FillZero(a).ok());
      Await(second.get());
      CHECK(*static_cast<const float*>(back.data()) == static_cast<float>(round));
      Await(first.get());
    }
  }
}

TEST_CASE("a device ends although its streams wait for another one's", "[device]") {
  FakeDeviceOptions options;
  options.max_delay = absl::Milliseconds(5);
  std::atomic<int> reached{0};
  {
    const FakeGpus gpus(2, options);  // the first one ends first
    const auto other = gpus.device(1)->BorrowStream().value();
    auto stream = gpus.device(0)->BorrowStream().value();
    for (int i = 0; i < 20; ++i) {
      const Buffer memory = other->Allocate(8).value();
      REQUIRE(other->FillZero(memory).ok());
      REQUIRE(stream->WaitFor(other.get()).ok());
      REQUIRE(stream->Notify([&](const absl::Status&) { ++reached; }).ok());
    }
    gpus.device(0)->ReturnStream(std::move(stream));
    gpus.device(1)->ReturnStream(other);
  }
  CHECK(reached == 20);
}

TEST_CASE(
    "a fake GPU's memory is NaN until something is written to it, and again when it went back",
    "[device]") {
  const FakeGpu gpu;
  const auto stream = Stream(gpu);
  const Buffer back = Pinned(gpu, {0, 0});
  for (int round = 0; round < 2; ++round) {
    const Buffer memory = stream->Allocate(8).value();
    REQUIRE(stream->CopyToHost(back, memory).ok());
    Await(stream.get());
    CHECK(std::isnan(Floats(back)[0]));
    CHECK(std::isnan(Floats(back)[1]));
    REQUIRE(stream->FillZero(memory).ok());
  }
  Await(stream.get());
  CHECK(gpu.device()->stats().live_bytes == 0);
}

TEST_CASE("a GPU without memory says so, and how much was wanted", "[device]") {
  FakeDeviceOptions options;
  options.memory_bytes = 4096;
  const FakeGpu gpu(options);
  const auto stream = Stream(gpu);
  const Buffer held = stream->Allocate(3000).value();
  const auto more = stream->Allocate(4096);
  CHECK(more.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(absl::StrContains(more.status().message(), "no memory for 4096 bytes"));
  CHECK_FALSE(IsDeviceLost(more.status()));
}

TEST_CASE("nothing works on a lost device, and that is told from other errors", "[device]") {
  const FakeGpu gpu;
  const auto stream = Stream(gpu);
  const Buffer memory = stream->Allocate(64).value();
  gpu.device()->Break();
  CHECK(IsDeviceLost(stream->Allocate(64).status()));
  CHECK(IsDeviceLost(stream->FillZero(memory)));
  CHECK(IsDeviceLost(gpu.device()->NewStream().status()));
  CHECK_FALSE(IsDeviceLost(absl::UnavailableError("another one")));
}

TEST_CASE("pinned memory is used again, and may outlive its device", "[device]") {
  Buffer kept;
  {
    const FakeGpu gpu;
    const void* const first = Pinned(gpu, {1, 2}).data();
    CHECK(Pinned(gpu, {3, 4}).data() == first);
    kept = Pinned(gpu, {5, 6});
  }
  CHECK(Floats(kept) == std::vector<float>{5, 6});
}

TEST_CASE("a stream that was given back is lent again", "[device]") {
  const FakeGpu gpu;
  CHECK(gpu.device()->borrowed_streams() == 0);
  auto stream = gpu.device()->BorrowStream().value();
  CHECK(gpu.device()->borrowed_streams() == 1);
  const DeviceStream* const before = stream.get();
  gpu.device()->ReturnStream(std::move(stream));
  CHECK(gpu.device()->borrowed_streams() == 0);
  auto again = gpu.device()->BorrowStream().value();
  CHECK(again.get() == before);
  gpu.device()->ReturnStream(std::move(again));
}

}  // namespace
}  // namespace coxswain::device
