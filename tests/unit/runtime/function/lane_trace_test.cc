// Traces of functions on fake GPUs: what is recorded, and what it costs when nobody records.
#include "runtime/function/lane_trace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "runtime/function/device_run.h"
#include "runtime/function/partition.h"
#include "runtime/graph/builder.h"
#include "tests/testing/fake_shards.h"
#include "tests/testing/on_device.h"
#include "tests/testing/registry.h"

namespace coxswain::function {
namespace {

using testing::ClusterOps;
using testing::FakeGpu;
using testing::FakeGpus;

constexpr uint64_t kClosure = 12;
constexpr uint32_t kStep = 3;

struct Span {
  std::string track;
  int64_t begin = 0, end = 0, bytes = -1;
  uint64_t closure = 0;
  uint32_t step = 0;
};

// By their beginnings.
std::vector<Span> Drain(trace::TraceRecorder* recorder) {
  proto::TraceEvents events;
  recorder->Drain(~size_t{0}, &events);
  CHECK(events.dropped() == 0);
  std::vector<Span> spans;
  for (int i = 0; i < events.name_size(); ++i) {
    spans.push_back({events.tracks(static_cast<int>(events.track(i))), events.start_us(i),
                     events.start_us(i) + events.duration_us(i), events.bytes(i), events.closure(i),
                     events.step(i)});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  return spans;
}

// Those of the GPU of that number, without that of the whole step.
std::vector<Span> OnLane(const std::vector<Span>& spans, int gpu) {
  const std::string end = "gpu:" + std::to_string(gpu);
  std::vector<Span> lane;
  for (const Span& span : spans) {
    const bool here = span.track.size() > end.size() &&
                      span.track.compare(span.track.size() - end.size(), end.size(), end) == 0;
    if (here && span.track != "steps on " + end) lane.push_back(span);
  }
  return lane;
}

std::vector<std::string> Tracks(const std::vector<Span>& spans) {
  std::vector<std::string> tracks;
  for (const Span& span : spans) tracks.push_back(span.track);
  return tracks;
}

// One after the other, between these times and of the step.
void CheckLane(const std::vector<Span>& lane, int64_t begin, int64_t end) {
  int64_t last = begin;
  for (const Span& span : lane) {
    CAPTURE(span.track);
    CHECK(span.begin >= last);
    CHECK(span.end >= span.begin);
    CHECK(span.end <= end);
    CHECK(span.closure == kClosure);
    CHECK(span.step == kStep);
    last = span.end;
  }
}

graph::Function MustFinish(graph::GraphBuilder* b) {
  auto f = b->Finish();
  INFO(f.status().ToString());
  REQUIRE(f.ok());
  return *std::move(f);
}

Tensor Ones(const Shape& shape) {
  return Tensor::FromVector(std::vector<float>(static_cast<size_t>(shape.num_elements()), 1.0f),
                            shape)
      .value();
}

// A step with rows of a shard, and its update.
graph::Function Step() {
  graph::GraphBuilder b("step", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Op("GatherShard", {ids}, testing::ReadOf(0, Shape{10, 2}), "rows");
  const Output loss = b.Op("ReduceSum", {b.Op("Square", {rows})}, {}, "loss");
  b.Target("ApplySparse", {ids, b.Gradients({loss}, {rows})[0]}, testing::ShardOf(0));
  b.Result("loss", loss);
  return MustFinish(&b);
}

// Two layers on two GPUs.
graph::Function TwoLayers() {
  graph::GraphBuilder b("layers", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{3, 2});
  Output lower;
  {
    const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:0");
    lower = b.Op("Tanh", {x});
  }
  const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:1");
  b.Result("y", b.Op("Neg", {lower}));
  return MustFinish(&b);
}

struct Traced {
  absl::StatusOr<std::vector<Tensor>> results;
  std::vector<Span> spans;
  int64_t begin = 0, end = 0;
};

// Runs it with a recorder of its own, which is gone when this returns.
Traced RunTraced(env::Env* env, const graph::Function& function, CompiledFunction::Devices devices,
                 std::vector<Tensor> arguments, bool record, PsCaller* caller = nullptr) {
  auto compiled = CompiledFunction::Compile(function, std::move(devices));
  INFO(compiled.status().ToString());
  REQUIRE(compiled.ok());
  const auto recorder = std::make_unique<trace::TraceRecorder>(env);
  recorder->Enable(record);
  RunOptions options;
  options.step.closure = kClosure;
  options.step.step = kStep;
  options.pool = env->pool();
  options.trace = recorder.get();
  Traced traced;
  absl::Notification over;
  traced.begin = absl::ToInt64Microseconds(recorder->Now());
  CompiledFunction::RunAsync(*compiled, std::move(arguments), options, caller,
                             [&](absl::StatusOr<std::vector<Tensor>> results) {
                               traced.results = std::move(results);
                               traced.end = absl::ToInt64Microseconds(recorder->Now());
                               over.Notify();
                             });
  over.WaitForNotification();
  traced.spans = Drain(recorder.get());
  return traced;
}

// The step on a GPU with a shard beside it.
Traced RunStep(const FakeGpu& gpu, bool record) {
  auto partition = PartitionFunction(Step(), 1, testing::PsOfSameNumber);
  REQUIRE(partition.ok());
  testing::FakeShards shards;
  shards.values[0] = Ones(Shape{10, 2});
  testing::SegmentRunner runner(*partition, &shards);
  return RunTraced(gpu.env(), partition->worker, {gpu.shared()},
                   {Tensor::FromVector<int64_t>({4, 9, 0})}, record, &runner);
}

TEST_CASE("a trace has a step's copies and what is computed between them, one after the other",
          "[device][trace]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    device::FakeDeviceOptions options;
    options.seed = seed;
    const FakeGpu gpu(options);
    const Traced traced = RunStep(gpu, true);
    REQUIRE(traced.results.ok());
    const std::vector<Span> lane = OnLane(traced.spans, 0);
    REQUIRE(Tracks(lane) ==
            std::vector<std::string>{"copies to gpu:0", "computing on gpu:0", "copies from gpu:0"});
    CheckLane(lane, traced.begin, traced.end);
    const device::FakeDeviceStats stats = gpu.device()->stats();
    CHECK(lane[0].bytes == stats.bytes_to_device);
    CHECK(lane[1].bytes == -1);
    CHECK(lane[2].bytes == stats.bytes_to_host);
    // What was asked for is there when the copy to the host is over.
    const auto whole = std::find_if(traced.spans.begin(), traced.spans.end(),
                                    [](const Span& s) { return s.track == "steps on gpu:0"; });
    REQUIRE(whole != traced.spans.end());
    CHECK(whole->end >= lane[2].end);
  }
}

TEST_CASE("a trace has copies between GPUs on the track of the one that they go to",
          "[device][trace]") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    device::FakeDeviceOptions options;
    options.seed = seed;
    const FakeGpus gpus(2, options);
    const Traced traced = RunTraced(gpus.env(), TwoLayers(), gpus.all(), {Ones(Shape{3, 2})}, true);
    REQUIRE(traced.results.ok());
    const std::vector<Span> first = OnLane(traced.spans, 0), second = OnLane(traced.spans, 1);
    REQUIRE(Tracks(first) == std::vector<std::string>{"copies to gpu:0", "computing on gpu:0"});
    REQUIRE(Tracks(second) == std::vector<std::string>{"copies from other gpus to gpu:1",
                                                       "computing on gpu:1", "copies from gpu:1"});
    CheckLane(first, traced.begin, traced.end);
    CheckLane(second, traced.begin, traced.end);
    CHECK(second[0].bytes == static_cast<int64_t>(6 * sizeof(float) + sizeof(CoxFault)));
    // What is copied was computed before.
    CHECK(second[0].begin >= first[1].end);
  }
}

TEST_CASE("a run of which nobody makes a trace enqueues no notification more for it",
          "[device][trace]") {
  const auto notifications = [](bool record) {
    const FakeGpu gpu;
    const Traced traced = RunStep(gpu, record);
    REQUIRE(traced.results.ok());
    CHECK(traced.spans.empty() == !record);
    return gpu.device()->stats().notifications;
  };
  CHECK(notifications(false) == 1);  // that the values are there
  // Around the copy to the GPU, and before that to the host.
  CHECK(notifications(true) == 1 + 3);
}

TEST_CASE("what a trace waits for may come when the run, its recorder and its clock are gone",
          "[device][trace]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{4, 4});
  b.Result("y", b.Op("Neg", {x}));
  const graph::Function f = MustFinish(&b);
  const graph::Node& neg = f.graph.node(f.results[0].output.node);
  const auto pool = env::NewInlinePool();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    device::FakeDeviceOptions options;
    options.seed = seed;
    options.max_delay = absl::Milliseconds(5);
    const FakeGpu gpu(options);
    const auto op = gpu.device()->CreateOp(neg, f.graph).value();
    const std::vector<std::shared_ptr<device::DeviceRuntime>> devices = {gpu.shared()};
    {
      const std::unique_ptr<env::Env> clock = env::NewRealEnv(1);
      trace::TraceRecorder recorder(clock.get());
      recorder.Enable(true);
      auto run = DeviceRun::Start(devices, &f, &recorder).value();
      const Tensor ones = Ones(Shape{4, 4});
      Tensor down, y;
      OutputTypes types;
      REQUIRE(run->CopyToDevice(0, {&ones, 1}, pool.get(), {&down, 1}).ok());
      REQUIRE(run->RunOp(0, *op, neg, &types, {&down, 1}, {&y, 1}, {}).ok());
      if (seed % 2 == 0) gpu.device()->Break();
      run->OnIdle();
    }
    testing::AwaitLastStream(gpu.device());
  }
}

TEST_CASE("a step that goes wrong on a GPU leaves a trace of what came before", "[device][trace]") {
  const FakeGpu gpu;
  graph::GraphBuilder b("f", &ClusterOps());
  const Output rows = b.Argument("rows", DType::kF32, Shape{3, 2});
  const Output places = b.Argument("places", DType::kI64, Shape{2});
  const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:0");
  b.Result("y", b.Op("Gather", {rows, places}));
  const Traced traced = RunTraced(gpu.env(), MustFinish(&b), {gpu.shared()},
                                  {Ones(Shape{3, 2}), Tensor::FromVector<int64_t>({1, 7})}, true);
  CHECK(traced.results.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(Tracks(OnLane(traced.spans, 0)) ==
        std::vector<std::string>{"copies to gpu:0", "computing on gpu:0", "copies from gpu:0"});
  CHECK(gpu.device()->borrowed_streams() == 0);
  testing::AwaitLastStream(gpu.device());
  CHECK(gpu.device()->stats().live_bytes == 0);
}

}  // namespace
}  // namespace coxswain::function
