// Functions on a fake GPU: the same as on the CPU, and what goes wrong there.
#include "runtime/function/device_run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
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
using testing::FakeShards;
using testing::PsOfSameNumber;
using testing::ReadOf;
using testing::ShardOf;

graph::Function MustFinish(graph::GraphBuilder* b) {
  auto f = b->Finish();
  INFO(f.status().ToString());
  REQUIRE(f.ok());
  return *std::move(f);
}

Tensor Random(const Shape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  Tensor t(DType::kF32, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<float>()[i] = value(random);
  return t;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// Chains over the argument with values that are used again, and now and then an op that is pinned
// to one of the places.
graph::Function RandomFunction(uint64_t seed,
                               const std::vector<std::string>& places = {"/device:CPU:0"}) {
  std::mt19937_64 random(seed);
  graph::GraphBuilder b(absl::StrCat("random", seed), &ClusterOps());
  std::vector<Output> values = {b.Argument("x", DType::kF32, Shape{4, 4}),
                                b.Argument("y", DType::kF32, Shape{4, 4}), b.Scalar(0.5f)};
  const char* const kOps[] = {"Tanh", "Neg", "Sigmoid"};
  const int nodes = 3 + static_cast<int>(random() % 30);
  for (int i = 0; i < nodes; ++i) {
    const auto pick = [&] { return values[random() % values.size()]; };
    const bool pinned = random() % 4 == 0;
    const graph::GraphBuilder::DeviceScope scope(
        &b, pinned ? places[places.size() == 1 ? 0 : random() % places.size()] : "");
    if (random() % 2 == 0) {
      values.push_back(b.Op("Add", {pick(), pick()}));
    } else {
      values.push_back(b.Op(kOps[random() % 3], {pick()}));
    }
  }
  for (int i = 0; i < 3; ++i)
    b.Result(absl::StrCat("r", i), values[values.size() - 1 - random() % 3]);
  return MustFinish(&b);
}

TEST_CASE("output types are inferred again only when the inputs' types change") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{kUnknownDim});
  b.Result("y", b.Op("Neg", {x}));
  const graph::Function f = MustFinish(&b);
  const graph::Node& neg = f.graph.node(f.results[0].output.node);
  OutputTypes types;
  const auto shape_for = [&](int64_t n) {
    const Tensor input(DType::kF32, Shape{n});
    const auto made = types.For(neg, ClusterOps(), {input});
    REQUIRE(made.ok());
    return (**made)[0].shape.dim(0);
  };
  CHECK(shape_for(3) == 3);
  CHECK(shape_for(3) == 3);
  CHECK(types.inferred() == 1);
  CHECK(shape_for(4) == 4);
  CHECK(types.inferred() == 2);
}

TEST_CASE("random functions give on a fake GPU what they give on the CPU, to the bit", "[device]") {
  const FakeGpu gpu;
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const graph::Function f = RandomFunction(seed);
    const std::vector<Tensor> arguments = {Random(Shape{4, 4}, seed),
                                           Random(Shape{4, 4}, seed + 1)};
    graph::Function plain = f;  // the CPU does not mind where nodes are pinned
    auto compiled = CompiledFunction::Compile(plain);
    REQUIRE(compiled.ok());
    const auto wanted = (*compiled)->Run(arguments, options);
    REQUIRE(wanted.ok());
    const auto found = gpu.Run(f, arguments);
    INFO(found.status().ToString());
    REQUIRE(found.ok());
    REQUIRE(found->size() == wanted->size());
    for (size_t i = 0; i < wanted->size(); ++i) CHECK(SameBytes((*found)[i], (*wanted)[i]));
  }
  CHECK(gpu.device()->stats().ops > 300);
  CHECK(gpu.device()->borrowed_streams() == 0);
}

TEST_CASE("values that come up too early are found to be wrong", "[device]") {
  device::FakeDeviceOptions options;
  options.notifies_early = true;
  const FakeGpu gpu(options);
  graph::GraphBuilder b("f", &ClusterOps());
  b.Result("y", b.Op("Neg", {b.Argument("x", DType::kF32, Shape{4})}));
  const graph::Function f = MustFinish(&b);
  const Tensor x = Random(Shape{4}, 1);
  int wrong = 0;
  for (int i = 0; i < 20; ++i) {
    const auto found = gpu.Run(f, {x});
    if (!found.ok() || (*found)[0].data<float>()[0] != -x.data<float>()[0]) ++wrong;
  }
  CHECK(wrong > 0);
}

// Whoever has lent them gives them back to the stream that they are of.
TEST_CASE("rows that a run has borrowed stay until it has read them, also when it ends early",
          "[device]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output argument = b.Argument("x", DType::kF32, Shape{16, 64});
  b.Result("y", b.Op("Neg", {argument}));
  const graph::Function f = MustFinish(&b);
  const graph::Node& neg = f.graph.node(f.results[0].output.node);
  const Tensor x = Random(Shape{16, 64}, 1);
  const auto pool = env::NewInlinePool();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    device::FakeDeviceOptions options;
    options.seed = seed;
    const FakeGpu gpu(options);
    const auto lender = gpu.device()->RowStream(0).value();
    const auto op = gpu.device()->CreateOp(neg, f.graph).value();
    const Buffer pinned = gpu.device()->pinned()->Allocate(x.bytes()).value();
    std::memcpy(pinned.data(), x.raw(), x.bytes());
    Tensor lent(DType::kF32, x.shape(), lender->Allocate(x.bytes()).value());
    REQUIRE(lender->CopyToDevice(lent.buffer(), pinned).ok());

    const std::vector<std::shared_ptr<device::DeviceRuntime>> devices = {gpu.shared()};
    auto run = DeviceRun::Start(devices, &f).value();
    Tensor taken, y;
    OutputTypes types;
    REQUIRE(run->CopyToDevice(0, {&lent, 1}, pool.get(), {&taken, 1}).ok());
    REQUIRE(run->RunOp(0, *op, neg, &types, {&taken, 1}, {&y, 1}, {}).ok());
    lent = taken = Tensor();
    run.reset();
    const Buffer next = lender->Allocate(x.bytes()).value();
    REQUIRE(lender->FillZero(next).ok());

    testing::AwaitLastStream(gpu.device());
    REQUIRE(lender->CopyToHost(pinned, y.buffer()).ok());
    REQUIRE(lender->Synchronize().ok());
    const float* const found = static_cast<const float*>(pinned.data());
    for (int64_t i = 0; i < x.num_elements(); ++i) REQUIRE(found[i] == -x.data<float>()[i]);
  }
}

TEST_CASE("what only passes a tensor on takes no memory on the device, and gives the same",
          "[device]") {
  const Tensor x = Random(Shape{4, 6}, 3);
  const auto run = [&](bool pass) {
    const FakeGpu gpu;
    graph::GraphBuilder b("f", &ClusterOps());
    Output y = b.Op("Neg", {b.Argument("x", DType::kF32, Shape{4, 6})});
    if (pass) {
      y = b.Op("Reshape", {y}, {{"shape", Shape{2, -1}}});
      y = b.Op("ExpandDims", {b.Op("Identity", {y})}, {{"axis", int64_t{0}}});
      y = b.Op("Squeeze", {b.Op("StopGradient", {y})}, {{"axis", int64_t{0}}});
    }
    b.Result("y", b.Op("Tanh", {y}));
    const auto found = gpu.Run(MustFinish(&b), {x});
    INFO(found.status().ToString());
    REQUIRE(found.ok());
    return std::pair((*found)[0], gpu.device()->stats());
  };
  const auto [plain, without] = run(false);
  const auto [passed, with] = run(true);
  CHECK(passed.shape() == Shape{2, 12});
  CHECK(SameBytes(passed.Reshaped(plain.shape()), plain));
  CHECK(with.ops == without.ops + 5);
  CHECK(with.allocations == without.allocations);
}

TEST_CASE("a run gives back all memory that it had on the device", "[device]") {
  const FakeGpu gpu;
  const graph::Function f = RandomFunction(7);
  auto compiled = CompiledFunction::Compile(f, {gpu.shared()});
  REQUIRE(compiled.ok());
  const int64_t constants = gpu.device()->stats().live_bytes;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(gpu.Run(*compiled, {Random(Shape{4, 4}, 1), Random(Shape{4, 4}, 2)}).ok());
  }
  testing::AwaitLastStream(gpu.device());
  CHECK(gpu.device()->stats().live_bytes == constants);
}

std::vector<Tensor> OnTheCpu(const graph::Function& f, const std::vector<Tensor>& arguments) {
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  auto compiled = CompiledFunction::Compile(f);
  REQUIRE(compiled.ok());
  auto results = (*compiled)->Run(arguments, options);
  REQUIRE(results.ok());
  return *std::move(results);
}

const std::vector<std::string>& ThreePlaces() {
  static const auto* const places =
      new std::vector<std::string>{"/device:CPU:0", "/device:GPU:0", "/device:GPU:1"};
  return *places;
}

// Of 100 random functions: how many do not give on the two GPUs what they give on the CPU.
int WrongOnTwoGpus(const FakeGpus& gpus) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    // Without pins to GPUs it is the same function to the CPU.
    const graph::Function pinned = RandomFunction(seed, ThreePlaces());
    graph::Function plain = pinned;
    for (int id = 0; id < plain.graph.size(); ++id) plain.graph.mutable_node(id)->device = {};
    const std::vector<Tensor> arguments = {Random(Shape{4, 4}, seed),
                                           Random(Shape{4, 4}, seed + 1)};
    const std::vector<Tensor> wanted = OnTheCpu(plain, arguments);
    const auto found = gpus.Run(pinned, arguments);
    bool same = found.ok();
    for (size_t i = 0; same && i < wanted.size(); ++i) same = SameBytes((*found)[i], wanted[i]);
    if (!same) ++wrong;
  }
  return wrong;
}

TEST_CASE("random functions give on two fake GPUs what they give on the CPU, to the bit",
          "[device]") {
  const FakeGpus gpus(2);
  CHECK(WrongOnTwoGpus(gpus) == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(gpus.device(i)->stats().ops > 100);
    CHECK(gpus.device(i)->stats().copies_from_devices > 20);
    CHECK(gpus.device(i)->borrowed_streams() == 0);
  }
}

TEST_CASE("streams of two GPUs that do not wait for each other are found", "[device]") {
  device::FakeDeviceOptions options;
  options.forgets_waits = true;
  const FakeGpus gpus(2, options);
  CHECK(WrongOnTwoGpus(gpus) > 0);
}

// Two layers on two GPUs; the lower one picks rows.
graph::Function TwoLayers() {
  graph::GraphBuilder b("layers", &ClusterOps());
  const Output rows = b.Argument("rows", DType::kF32, Shape{3, 2});
  const Output places = b.Argument("places", DType::kI64, Shape{2});
  Output lower;
  {
    const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:0");
    lower = b.Op("Gather", {rows, places}, {}, "pick");
  }
  const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:1");
  b.Result("y", b.Op("Neg", {lower}));
  return MustFinish(&b);
}

TEST_CASE("a wrong value on one GPU is known with what the other one makes of it", "[device]") {
  const FakeGpus gpus(2);
  const auto run = [&](int64_t place) {
    return gpus.Run(TwoLayers(), {Random(Shape{3, 2}, 1), Tensor::FromVector<int64_t>({1, place})});
  };
  const auto wrong = run(3);
  CHECK(wrong.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(wrong.status().message(), "node 'pick' (Gather)"));
  CHECK(run(2).ok());  // on the same streams
}

TEST_CASE("a wrong value is known although what was there before it comes by a third GPU later",
          "[device]") {
  // GPU:0 gives x to GPU:1, then finds the wrong value and gives it to GPU:2, to which GPU:1 gives
  // what it made of x last.
  graph::GraphBuilder b("three", &ClusterOps());
  const Output rows = b.Argument("rows", DType::kF32, Shape{2, 2});
  const Output places = b.Argument("places", DType::kI64, Shape{2});
  const auto on = [&](int gpu, const std::string& op, std::vector<Output> inputs) {
    const graph::GraphBuilder::DeviceScope scope(&b, absl::StrCat("/device:GPU:", gpu));
    return b.Op(op, std::move(inputs));
  };
  const Output x = on(0, "Neg", {rows}), y = on(0, "Gather", {rows, places});
  b.Result("w", on(2, "Add", {y, on(1, "Neg", {x})}));
  const graph::Function f = MustFinish(&b);
  const FakeGpus gpus(3);
  const auto run = [&](int64_t place) {
    return gpus.Run(f, {Random(Shape{2, 2}, 1), Tensor::FromVector<int64_t>({1, place})});
  };
  CHECK(run(0).ok());
  const auto wrong = run(2);
  CHECK(wrong.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(wrong.status().message(), "(Gather)"));
}

TEST_CASE("a run borrows streams only of the GPUs that its nodes are pinned to", "[device]") {
  const FakeGpus gpus(3);
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{2});
  {
    const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:1");
    b.Result("y", b.Op("Neg", {x}));
  }
  const auto compiled = CompiledFunction::Compile(MustFinish(&b), gpus.all());
  REQUIRE(compiled.ok());
  REQUIRE((*compiled)->devices().size() == 1);
  CHECK((*compiled)->devices()[0].get() == gpus.device(1));
  const auto found = testing::RunToTheEnd(gpus.env(), *compiled, {Random(Shape{2}, 1)});
  INFO(found.status().ToString());
  CHECK(found.ok());
  CHECK(gpus.device(0)->stats().ops == 0);
}

TEST_CASE("the loss of either GPU ends a run on both", "[device]") {
  for (int lost = 0; lost < 2; ++lost) {
    const FakeGpus gpus(2);
    auto compiled = CompiledFunction::Compile(TwoLayers(), gpus.all());
    REQUIRE(compiled.ok());
    gpus.device(lost)->Break();
    const auto found = testing::RunToTheEnd(
        gpus.env(), *compiled, {Random(Shape{3, 2}, 1), Tensor::FromVector<int64_t>({1, 2})});
    CHECK(device::IsDeviceLost(found.status()));
    for (int i = 0; i < 2; ++i) CHECK(gpus.device(i)->borrowed_streams() == 0);
  }
}

TEST_CASE("a run gives back all memory that it had on two GPUs", "[device]") {
  const FakeGpus gpus(2);
  auto compiled = CompiledFunction::Compile(TwoLayers(), gpus.all());
  REQUIRE(compiled.ok());
  for (int i = 0; i < 20; ++i) {
    REQUIRE(testing::RunToTheEnd(gpus.env(), *compiled,
                                 {Random(Shape{3, 2}, 1), Tensor::FromVector<int64_t>({1, 2})})
                .ok());
  }
  for (int i = 0; i < 2; ++i) {
    testing::AwaitLastStream(gpus.device(i));
    CHECK(gpus.device(i)->stats().live_bytes == 0);
  }
}

// One step with rows of a shard, and its update.
graph::Function Step() {
  graph::GraphBuilder b("step", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Op("GatherShard", {ids}, ReadOf(0, Shape{10, 2}), "rows");
  const Output loss = b.Op("ReduceSum", {b.Op("Square", {rows})}, {}, "loss");
  b.Target("ApplySparse", {ids, b.Gradients({loss}, {rows})[0]}, ShardOf(0));
  b.Result("loss", loss);
  return MustFinish(&b);
}

TEST_CASE("a step with a PS copies once down and once up, and pushes the right gradients",
          "[device]") {
  const FakeGpu gpu;
  auto partition = PartitionFunction(Step(), 1, PsOfSameNumber);
  REQUIRE(partition.ok());
  FakeShards shards;
  shards.values[0] = Random(Shape{10, 2}, 3);
  testing::SegmentRunner runner(*partition, &shards);
  const auto found =
      gpu.Run(partition->worker, {Tensor::FromVector<int64_t>({4, 9, 0})}, {}, &runner);
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  CHECK(gpu.device()->stats().copies_to_device == 1);
  CHECK(gpu.device()->stats().copies_to_host == 1);
  REQUIRE(shards.staged.size() == 1);
  const Tensor& gradient = shards.staged[0].values;
  const float* const values = shards.values[0].data<float>();
  float loss = 0;
  for (int i = 0; i < 6; ++i) {
    const float value = values[std::vector<int>{8, 9, 18, 19, 0, 1}[static_cast<size_t>(i)]];
    CHECK(gradient.data<float>()[i] == 2 * value);
    loss += value * value;
  }
  CHECK((*found)[0].data<float>()[0] == Approx(loss));
}

// Tasks that somebody else is to run. Thread-safe.
class HeldTasks final : public env::ComputePool {
 public:
  void Schedule(absl::AnyInvocable<void()> task) override {
    absl::MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
  }
  void ParallelFor(int64_t n, int64_t, absl::FunctionRef<void(int64_t, int64_t)> body) override {
    body(0, n);
  }
  int threads() const override { return 1; }
  double busy_seconds() const override { return 0; }

  size_t count() const {
    absl::MutexLock lock(&mu_);
    return tasks_.size();
  }
  void RunNext() {
    absl::AnyInvocable<void()> task;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(
          +[](std::deque<absl::AnyInvocable<void()>>* tasks) { return !tasks->empty(); }, &tasks_));
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }

 private:
  mutable absl::Mutex mu_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mu_);
};

// Calls that are answered when a test says so.
class LateCaller final : public PsCaller {
 public:
  explicit LateCaller(PsCaller* servers) : servers_(servers) {}
  void Call(const PsCallTarget& target, std::vector<Tensor> inputs, Done done) override {
    next = [=, this, inputs = std::move(inputs), done = std::move(done)]() mutable {
      servers_->Call(target, std::move(inputs), std::move(done));
    };
  }
  absl::AnyInvocable<void()> next;

 private:
  PsCaller* const servers_;
};

TEST_CASE("who brings rows from a PS does not enqueue what a GPU computes with them", "[device]") {
  const FakeGpu gpu;
  auto partition = PartitionFunction(Step(), 1, PsOfSameNumber);
  REQUIRE(partition.ok());
  auto compiled = CompiledFunction::Compile(partition->worker, {gpu.shared()});
  REQUIRE(compiled.ok());
  FakeShards shards;
  shards.values[0] = Random(Shape{10, 2}, 3);
  testing::SegmentRunner runner(*partition, &shards);
  LateCaller caller(&runner);
  HeldTasks tasks;
  RunOptions options;
  options.pool = &tasks;
  bool over = false;
  CompiledFunction::RunAsync(*compiled, {Tensor::FromVector<int64_t>({4, 9, 0})}, options, &caller,
                             [&](const absl::StatusOr<std::vector<Tensor>>& results) {
                               CHECK(results.ok());
                               over = true;
                             });
  REQUIRE(caller.next);
  std::exchange(caller.next, nullptr)();  // the rows
  CHECK(gpu.device()->stats().copies_to_device == 0);
  REQUIRE(tasks.count() == 1);
  tasks.RunNext();  // enqueues; then the gradients come up, which is another task
  CHECK(gpu.device()->stats().copies_to_device == 1);
  tasks.RunNext();
  REQUIRE(caller.next);
  std::exchange(caller.next, nullptr)();  // the acknowledgement, which costs nothing
  CHECK(tasks.count() == 0);
  CHECK(over);
}

TEST_CASE("much that a call returns is copied to a GPU by several threads, in its order",
          "[device]") {
  const FakeGpu gpu;
  auto pool = env::NewComputePool(3);
  graph::GraphBuilder b("f", &ClusterOps());
  std::vector<Tensor> arguments;
  for (const int64_t rows : {0, 300'001, 1, 700'000, 3}) {
    const std::string name = absl::StrCat("x", arguments.size());
    b.Result(absl::StrCat("y", arguments.size()),
             b.Op("Neg", {b.Argument(name, DType::kF32, Shape{rows})}));
    arguments.push_back(Random(Shape{rows}, arguments.size()));
  }
  auto compiled = CompiledFunction::Compile(MustFinish(&b), {gpu.shared()});
  REQUIRE(compiled.ok());
  RunOptions options;
  options.pool = pool.get();
  absl::Notification over;
  absl::StatusOr<std::vector<Tensor>> found;
  CompiledFunction::RunAsync(*compiled, arguments, options, nullptr,
                             [&](absl::StatusOr<std::vector<Tensor>> results) {
                               found = std::move(results);
                               over.Notify();
                             });
  over.WaitForNotification();
  REQUIRE(found.ok());
  CHECK(gpu.device()->stats().copies_to_device == 1);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const float* const x = arguments[i].data<float>();
    const float* const y = (*found)[i].data<float>();
    CHECK(std::equal(x, x + arguments[i].num_elements(), y,
                     [](float a, float b) { return -a == b; }));
  }
}

TEST_CASE("a wrong value on the device is an error that names the node, and nothing is pushed",
          "[device]") {
  const FakeGpu gpu;
  graph::GraphBuilder b("step", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output places = b.Argument("places", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Op("GatherShard", {ids}, ReadOf(0, Shape{10, 2}), "rows");
  const Output picked = b.Op("Gather", {rows, places}, {}, "pick");
  const Output loss = b.Op("ReduceSum", {b.Op("Square", {picked})}, {}, "loss");
  b.Target("ApplySparse", {ids, b.Gradients({loss}, {rows})[0]}, ShardOf(0));
  b.Result("loss", loss);
  auto partition = PartitionFunction(MustFinish(&b), 1, PsOfSameNumber);
  REQUIRE(partition.ok());
  FakeShards shards;
  shards.values[0] = Random(Shape{10, 2}, 3);
  testing::SegmentRunner runner(*partition, &shards);
  const auto found = gpu.Run(
      partition->worker,
      {Tensor::FromVector<int64_t>({4, 9, 0}), Tensor::FromVector<int64_t>({1, 3})}, {}, &runner);
  CHECK(found.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(found.status().message(), "function 'step"));
  CHECK(absl::StrContains(found.status().message(), "node 'pick' (Gather)"));
  CHECK(shards.staged.empty());
  CHECK(gpu.device()->borrowed_streams() == 0);
  // The next run on the stream does not hear of it.
  const auto next = gpu.Run(
      partition->worker,
      {Tensor::FromVector<int64_t>({4, 9, 0}), Tensor::FromVector<int64_t>({1, 2})}, {}, &runner);
  INFO(next.status().ToString());
  CHECK(next.ok());
}

TEST_CASE("a step that does not fit into the device's memory is an error that says so",
          "[device]") {
  device::FakeDeviceOptions options;
  options.memory_bytes = 1 << 16;
  const FakeGpu gpu(options);
  graph::GraphBuilder b("f", &ClusterOps());
  b.Result("y", b.Op("Neg", {b.Argument("x", DType::kF32, Shape{64, 1024})}));
  const auto found = gpu.Run(MustFinish(&b), {Random(Shape{64, 1024}, 1)});
  CHECK(found.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(absl::StrContains(found.status().message(), "fake GPU"));
  CHECK(gpu.device()->borrowed_streams() == 0);
}

TEST_CASE("a device that is lost ends the run with an error that tells", "[device]") {
  const FakeGpu gpu;
  graph::GraphBuilder b("f", &ClusterOps());
  b.Result("y", b.Op("Neg", {b.Argument("x", DType::kF32, Shape{4})}));
  auto compiled = CompiledFunction::Compile(MustFinish(&b), {gpu.shared()});
  REQUIRE(compiled.ok());
  gpu.device()->Break();
  const auto found = gpu.Run(*compiled, {Random(Shape{4}, 1)});
  CHECK(device::IsDeviceLost(found.status()));
}

TEST_CASE("a node for a GPU is refused where there is none, never run on the CPU", "[device]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{4});
  const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:0");
  b.Result("y", b.Op("Neg", {x}, {}, "minus"));
  const auto compiled = CompiledFunction::Compile(MustFinish(&b));
  CHECK(compiled.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(compiled.status().message(), "node 'minus' (Neg): wanted on"));
}

}  // namespace
}  // namespace coxswain::function
