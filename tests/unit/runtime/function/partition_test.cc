#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/function/partition.h"
#include "runtime/graph/builder.h"
#include "tests/testing/fake_shards.h"
#include "tests/testing/registry.h"

namespace coxswain::function {
namespace {

using testing::ClusterOps;
using testing::FakeShards;
using testing::PsOfSameNumber;
using testing::ReadOf;
using testing::ShardOf;
using Strings = std::vector<std::string>;

graph::Function MustFinish(graph::GraphBuilder* b) {
  auto f = b->Finish();
  INFO(f.status().ToString());
  REQUIRE(f.ok());
  return *std::move(f);
}

Partition MustPartition(const graph::Function& f, int num_ps,
                        const std::function<int(ShardId)>& ps_of_shard = PsOfSameNumber) {
  auto p = PartitionFunction(f, num_ps, ps_of_shard);
  INFO(p.status().ToString());
  REQUIRE(p.ok());
  return *std::move(p);
}

Strings Ops(const graph::Function& f) {
  Strings ops;
  for (const graph::Node& n : f.graph.nodes()) ops.push_back(n.op);
  return ops;
}

// "ps:1/0 <- a, b" for each call of the worker: the names of what it sends.
Strings Calls(const graph::Function& worker) {
  Strings calls;
  for (const graph::Node& n : worker.graph.nodes()) {
    if (n.op != kPsCallOp) continue;
    const PsCallTarget target = GetPsCallTarget(n);
    std::string text = absl::StrCat("ps:", target.ps, "/", target.segment, " <-");
    for (const Output& in : n.inputs) {
      absl::StrAppend(&text, " ", worker.graph.node(in.node).name, ":", in.index);
    }
    calls.push_back(text);
  }
  return calls;
}

// The results of a partition that is run in one process.
std::vector<Tensor> RunPartition(const Partition& partition, std::vector<Tensor> arguments,
                                 FakeShards* shards, std::vector<std::pair<int, int>>* calls) {
  auto worker = CompiledFunction::Compile(partition.worker);
  INFO(worker.status().ToString());
  REQUIRE(worker.ok());
  testing::SegmentRunner runner(partition, shards);
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  absl::StatusOr<std::vector<Tensor>> results = absl::UnknownError("not called");
  CompiledFunction::RunAsync(*worker, std::move(arguments), options, &runner,
                             [&](auto r) { results = std::move(r); });
  INFO(results.status().ToString());
  REQUIRE(results.ok());
  if (calls != nullptr) *calls = runner.calls;
  return *std::move(results);
}

Tensor Vector(const std::vector<float>& values) { return Tensor::FromVector<float>(values); }
std::vector<float> Floats(const Tensor& t) {
  return {t.values<float>().begin(), t.values<float>().end()};
}

// loss = sum(x v0 + v1) with v0 on ps:0 and v1 on ps:1, and an update of both.
graph::Function Linear() {
  graph::GraphBuilder b("linear", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2});
  Output v0 = b.Op("ReadVariable", {}, ReadOf(0, Shape{2}), "v0");
  Output v1 = b.Op("ReadVariable", {}, ReadOf(1, Shape{2}), "v1");
  Output y = b.Op("Add", {b.Op("Mul", {x, v0}, {}, "product"), v1}, {}, "y");
  Output loss = b.Op("ReduceSum", {y}, {}, "loss");
  const std::vector<Output> d = b.Gradients({loss}, {v0, v1});
  b.Target("ApplyDense", {d[0]}, ShardOf(0));
  b.Target("ApplyDense", {d[1]}, ShardOf(1));
  b.Result("loss", loss);
  return MustFinish(&b);
}

TEST_CASE("two variables on two PS make a worker component and two segments on each",
          "[partition]") {
  const graph::Function f = Linear();
  const Partition p = MustPartition(f, 2);
  REQUIRE(p.segments.size() == 2);
  for (int ps = 0; ps < 2; ++ps) {
    INFO(ps);
    REQUIRE(p.segments[ps].size() == 2);
    const graph::Function &read = p.segments[ps][0], &update = p.segments[ps][1];
    CHECK(Ops(read) == Strings{"ReadVariable"});
    CHECK(read.arguments.empty());
    REQUIRE(read.results.size() == 1);
    CHECK(read.results[0].name == absl::StrCat("v", ps, ":0"));
    CHECK(Ops(update) == Strings{"Arg", "ApplyDense"});
    CHECK(update.arguments.size() == 1);
    CHECK(update.arguments[0].type == TensorType{DType::kF32, Shape{2}});
    CHECK(update.results.empty());
    CHECK(update.targets == std::vector<int>{1});
  }
  // Everything else, and nothing of a PS, is the worker's.
  CHECK(p.worker.arguments.size() == 1);
  CHECK(p.worker.results.size() == 1);
  const Strings ops = Ops(p.worker);
  CHECK(std::count(ops.begin(), ops.end(), "ReadVariable") == 0);
  CHECK(std::count(ops.begin(), ops.end(), "ApplyDense") == 0);
  const Strings calls = Calls(p.worker);
  REQUIRE(calls.size() == 4);  // one frame per PS and point
  CHECK(calls[0] == "ps:0/0 <-");
  CHECK(calls[1] == "ps:1/0 <-");
  CHECK(absl::StartsWith(calls[2], "ps:0/1 <- "));
  CHECK(absl::StartsWith(calls[3], "ps:1/1 <- "));
  CHECK(p.worker.targets.size() == 4);
  CHECK(static_cast<int>(ops.size()) == f.graph.size() - 4 + 4);
}

TEST_CASE("a partition computes what the whole function computes", "[partition]") {
  FakeShards shards, whole_shards;
  shards.values = whole_shards.values = {{0, Vector({2, 3})}, {1, Vector({10, 20})}};
  const graph::Function f = Linear();
  const Partition p = MustPartition(f, 2);
  std::vector<std::pair<int, int>> calls;
  const auto found = RunPartition(p, {Vector({4, 5})}, &shards, &calls);
  testing::InterpretOptions options;
  options.variables = &whole_shards;
  auto wanted = testing::Interpret(f, {Vector({4, 5})}, options);
  REQUIRE(wanted.ok());
  CHECK(Floats(found[0]) == Floats((*wanted)[0]));
  CHECK(Floats(found[0]) == std::vector<float>{4 * 2 + 5 * 3 + 10 + 20});
  CHECK(calls.size() == 4);
  REQUIRE(shards.staged.size() == 2);
  for (const graph::Update& u : shards.staged) {
    CHECK(u.kind == graph::Update::Kind::kDense);
    CHECK(Floats(u.values) == (u.shard == 0 ? std::vector<float>{4, 5} : std::vector<float>{1, 1}));
  }
}

TEST_CASE("constants are copied to where they are used and never sent", "[partition]") {
  graph::GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2});
  Output two = b.Constant(Vector({2, 2}), "two");
  for (int ps = 0; ps < 2; ++ps) {
    b.Target("AssignAddVariable", {two}, ShardOf(ps));
  }
  b.Result("product", b.Op("Mul", {x, two}));
  b.Result("constant", two);
  const Partition p = MustPartition(MustFinish(&b), 2);
  for (int ps = 0; ps < 2; ++ps) {
    REQUIRE(p.segments[ps].size() == 1);
    CHECK(Ops(p.segments[ps][0]) == Strings{"Const", "AssignAddVariable"});
    CHECK(p.segments[ps][0].arguments.empty());
  }
  CHECK(Calls(p.worker) == Strings{"ps:0/0 <-", "ps:1/0 <-"});
  FakeShards shards;
  const auto results = RunPartition(p, {Vector({3, 4})}, &shards, nullptr);
  CHECK(Floats(results[0]) == std::vector<float>{6, 8});
  CHECK(Floats(results[1]) == std::vector<float>{2, 2});
  REQUIRE(shards.staged.size() == 2);
  CHECK(Floats(shards.staged[1].values) == std::vector<float>{2, 2});
}

TEST_CASE("a constant that only a result needs is the worker's", "[partition]") {
  graph::GraphBuilder b("f", &ClusterOps());
  {
    graph::GraphBuilder::DeviceScope scope(&b, "/job:ps/task:1");
    b.Result("c", b.Constant(Vector({7})));
  }
  const Partition p = MustPartition(MustFinish(&b), 2);
  CHECK(Ops(p.worker) == Strings{"Const"});
  CHECK(p.segments[0].empty());
  CHECK(p.segments[1].empty());
}

// A sum on ps:0 of its own v0 and of v1, which comes from ps:1 by way of the worker.
Partition SumOnPs(bool updated) {
  graph::GraphBuilder b("sum", &ClusterOps());
  Output v0 = b.Op("ReadVariable", {}, ReadOf(0, Shape{2}), "v0");
  Output v1 = b.Op("ReadVariable", {}, ReadOf(1, Shape{2}), "v1");
  if (updated) b.Target("AssignVariable", {b.Constant(Vector({7, 7}))}, ShardOf(0));
  {
    graph::GraphBuilder::DeviceScope scope(&b, "/job:ps/task:0");
    b.Result("sum", b.Op("Add", {v0, v1}, {}, "sum"));
  }
  return MustPartition(MustFinish(&b), 2);
}

TEST_CASE("what a PS reads for a later segment of its own does not travel", "[partition]") {
  const Partition p = SumOnPs(false);
  CHECK(Calls(p.worker) == Strings{"ps:1/0 <-", "ps:0/1 <- call/ps:1/0:0"});
  CHECK(Ops(p.segments[0][1]) == Strings{"Arg", "ReadVariable", "Add"});
  FakeShards shards;
  shards.values = {{0, Vector({2, 3})}, {1, Vector({10, 20})}};
  CHECK(Floats(RunPartition(p, {}, &shards, nullptr)[0]) == std::vector<float>{12, 23});

  // Where the function updates it, what is read is the value before.
  const Partition q = SumOnPs(true);
  CHECK(Calls(q.worker) ==
        Strings{"ps:0/0 <-", "ps:1/0 <-", "ps:0/1 <- call/ps:0/0:0 call/ps:1/0:0"});
}

TEST_CASE("a value goes from one PS to another through the worker", "[partition]") {
  graph::GraphBuilder b("copy", &ClusterOps());
  Output v0 = b.Op("ReadVariable", {}, ReadOf(0, Shape{2}), "v0");
  b.Target("AssignVariable", {v0}, ShardOf(1));
  const Partition p = MustPartition(MustFinish(&b), 2);
  CHECK(Calls(p.worker) == Strings{"ps:0/0 <-", "ps:1/1 <- call/ps:0/0:0"});
  REQUIRE(p.segments[1].size() == 2);
  CHECK(p.segments[1][0].graph.size() == 0);  // nothing for it to do at first
  CHECK(Ops(p.segments[1][1]) == Strings{"Arg", "AssignVariable"});
  FakeShards shards;
  shards.values = {{0, Vector({5, 6})}};
  RunPartition(p, {}, &shards, nullptr);
  REQUIRE(shards.staged.size() == 1);
  CHECK(shards.staged[0].shard == 1);
  CHECK(Floats(shards.staged[0].values) == std::vector<float>{5, 6});
}

TEST_CASE("a value stays on its PS between nodes of one segment", "[partition]") {
  graph::GraphBuilder b("square", &ClusterOps());
  Output v0 = b.Op("ReadVariable", {}, ReadOf(0, Shape{2}), "v0");
  Output square;
  {
    graph::GraphBuilder::DeviceScope scope(&b, "/job:ps/task:0");
    square = b.Op("Square", {v0}, {}, "square");
  }
  b.Target("AssignVariable", {square}, ShardOf(0));
  b.Result("square", square);
  const Partition p = MustPartition(MustFinish(&b), 1);
  CHECK(Calls(p.worker) == Strings{"ps:0/0 <-"});
  REQUIRE(p.segments[0].size() == 1);
  CHECK(Ops(p.segments[0][0]) == Strings{"ReadVariable", "Square", "AssignVariable"});
  REQUIRE(p.segments[0][0].results.size() == 1);  // v0 itself is not sent
  CHECK(p.segments[0][0].results[0].name == "square:0");
}

TEST_CASE("all tensors for one PS at one point are in one frame, each once", "[partition]") {
  graph::GraphBuilder b("f", &ClusterOps());
  Output i = b.Argument("i", DType::kI64, Shape{kUnknownDim});
  Output j = b.Argument("j", DType::kI64, Shape{kUnknownDim});
  // Shards 0, 1 and 2 live on ps:0, shard 3 on ps:1; i is wanted twice on ps:0.
  std::vector<Output> rows;
  const std::vector<Output> ids = {i, i, j, i};
  for (int s = 0; s < 4; ++s) {
    rows.push_back(b.Op("GatherShard", {ids[s]}, ReadOf(s, Shape{10, 2}), absl::StrCat("g", s)));
  }
  for (int s = 0; s < 4; ++s) b.Result(absl::StrCat("r", s), rows[s]);
  b.Result("again", rows[0]);
  const Partition p = MustPartition(MustFinish(&b), 2, [](ShardId s) { return s < 3 ? 0 : 1; });
  CHECK(Calls(p.worker) == Strings{"ps:0/0 <- arg/i:0 arg/j:0", "ps:1/0 <- arg/i:0"});
  REQUIRE(p.segments[0].size() == 1);
  CHECK(p.segments[0][0].arguments.size() == 2);
  CHECK(p.segments[0][0].results.size() == 3);
  CHECK(p.segments[1][0].results.size() == 1);
}

Attrs OnGpu(Attrs attrs) {
  attrs[kOnGpuAttr] = true;
  return attrs;
}

const graph::Node& CallOf(const graph::Function& worker, int segment) {
  for (const graph::Node& n : worker.graph.nodes()) {
    if (n.op == kPsCallOp && GetPsCallTarget(n).segment == segment) return n;
  }
  FAIL("no call of segment " << segment);
  return worker.graph.node(0);
}

TEST_CASE(
    "rows in a GPU's memory, and gradients that go to such rows alone, need not pass the host",
    "[partition]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  // Shard 0 is on a GPU, shard 1 on the host.
  std::vector<Output> gradients;
  for (int s = 0; s < 2; ++s) {
    const Attrs read = ReadOf(s, Shape{10, 2});
    const Output rows = b.Op("GatherShard", {ids}, s == 0 ? OnGpu(read) : read);
    gradients.push_back(b.Op("Neg", {rows}));
  }
  b.Target("ApplySparse", {ids, gradients[0]}, OnGpu(ShardOf(0)));
  b.Target("ApplySparse", {ids, gradients[1]}, ShardOf(1));
  const Partition p = MustPartition(MustFinish(&b), 1, [](ShardId) { return 0; });
  const graph::Node &lookup = CallOf(p.worker, 0), &update = CallOf(p.worker, 1);
  CHECK(GpuInputs(lookup).empty());
  CHECK(GpuOutputs(lookup) == std::vector<int64_t>{0});
  REQUIRE(update.inputs.size() == 3);  // the ids, and the gradients of both
  CHECK(GpuInputs(update) == std::vector<int64_t>{1});
  CHECK(GpuOutputs(update).empty());
}

TEST_CASE("rows that their PS computes with, and gradients that others take too, pass the host",
          "[partition]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Op("GatherShard", {ids}, OnGpu(ReadOf(0, Shape{10, 2})));
  const Output gradient = b.Op("Neg", {rows});
  {
    graph::GraphBuilder::DeviceScope scope(&b, "/job:ps/task:0");
    b.Result("square", b.Op("Square", {rows}));
  }
  b.Target("ApplySparse", {ids, gradient}, OnGpu(ShardOf(0)));
  b.Target("ApplySparse", {ids, gradient}, ShardOf(1));
  const Partition p = MustPartition(MustFinish(&b), 1, [](ShardId) { return 0; });
  for (const graph::Node& n : p.worker.graph.nodes()) {
    if (n.op != kPsCallOp) continue;
    CHECK(GpuInputs(n).empty());
    CHECK(GpuOutputs(n).empty());
  }
  for (const graph::Node& n : p.segments[0][0].graph.nodes()) {
    CHECK_FALSE(graph::AttrOr<bool>(n.attrs, kOnGpuAttr, false));
  }
}

TEST_CASE("a lookup by what another lookup found makes a segment more", "[partition]") {
  graph::GraphBuilder b("chain", &ClusterOps());
  Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  Output first = b.Op("GatherShard", {ids}, ReadOf(0, Shape{4}), "first");
  Output next = b.Op("Cast", {first}, {{"dtype", DType::kI64}}, "next");
  Output second = b.Op("GatherShard", {next}, ReadOf(1, Shape{4, 1}), "second");
  b.Target("ApplySparse", {next, b.Op("Neg", {second}, {}, "minus")}, ShardOf(1));
  b.Result("second", second);
  const Partition p = MustPartition(MustFinish(&b), 1, [](ShardId) { return 0; });
  REQUIRE(p.segments[0].size() == 3);
  CHECK(Ops(p.segments[0][0]) == Strings{"Arg", "GatherShard"});
  CHECK(Ops(p.segments[0][1]) == Strings{"Arg", "GatherShard"});
  CHECK(Ops(p.segments[0][2]) == Strings{"Arg", "Arg", "ApplySparse"});
  CHECK(Calls(p.worker) ==
        Strings{"ps:0/0 <- arg/ids:0", "ps:0/1 <- next:0", "ps:0/2 <- next:0 minus:0"});
  FakeShards shards;
  shards.values = {{0, Vector({3, 2, 1, 0})},
                   {1, Tensor::FromVector<float>({0, 10, 20, 30}, Shape{4, 1}).value()}};
  const auto results = RunPartition(p, {Tensor::FromVector<int64_t>({0, 3, 1})}, &shards, nullptr);
  CHECK(Floats(results[0]) == std::vector<float>{30, 0, 20});
  REQUIRE(shards.staged.size() == 1);
  CHECK(Floats(shards.staged[0].values) == std::vector<float>{-30, 0, -20});
}

TEST_CASE("a function without state is the worker's alone", "[partition]") {
  graph::GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2});
  b.Argument("unused", DType::kI64, Shape{});
  b.Result("x", x);
  b.Result("y", b.Op("Exp", {x}));
  const Partition p = MustPartition(MustFinish(&b), 3);
  CHECK(p.worker.arguments.size() == 2);
  CHECK(Calls(p.worker).empty());
  for (const auto& segments : p.segments) CHECK(segments.empty());
}

std::string PlaceError(const std::string& device, const std::string& op, Attrs attrs,
                       int num_ps = 2) {
  graph::GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2});
  graph::GraphBuilder::DeviceScope scope(&b, device);
  const bool reads = op == "ReadVariable";
  b.Result("r", b.Op(op, reads ? std::vector<Output>{} : std::vector<Output>{x}, std::move(attrs),
                     "the node"));
  const graph::Function f = MustFinish(&b);
  const auto place = Place(f, num_ps, [](ShardId s) { return s < 2 ? static_cast<int>(s) : -1; });
  const auto partition =
      PartitionFunction(f, num_ps, [](ShardId s) { return s < 2 ? static_cast<int>(s) : -1; });
  CHECK(place.ok() == partition.ok());
  if (place.ok()) return "";
  CHECK(place.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(place.status().message(), "'the node'"));
  return std::string(place.status().message());
}

TEST_CASE("a device constraint that cannot be met names node and device", "[partition]") {
  CHECK(PlaceError("/job:ps/task:1", "Neg", {}).empty());
  CHECK(PlaceError("/job:worker", "Neg", {}).empty());
  CHECK(PlaceError("/job:ps/task:0", "ReadVariable", ReadOf(0, Shape{2})).empty());
  const std::string missing = PlaceError("/job:ps/task:2", "Neg", {});
  CHECK(absl::StrContains(missing, "/job:ps/task:2"));
  CHECK(absl::StrContains(missing, "2 parameter servers"));
  CHECK(absl::StrContains(PlaceError("/job:chief", "Neg", {}), "/job:chief"));
  CHECK(absl::StrContains(PlaceError("/job:worker/task:1", "Neg", {}), "/job:worker/task:1"));
  const std::string elsewhere = PlaceError("/job:ps/task:0", "ReadVariable", ReadOf(1, Shape{2}));
  CHECK(absl::StrContains(elsewhere, "/job:ps/task:0"));
  CHECK(absl::StrContains(elsewhere, "lives on /job:ps/task:1"));
  CHECK_FALSE(PlaceError("/job:worker", "ReadVariable", ReadOf(1, Shape{2})).empty());
  CHECK(absl::StrContains(PlaceError("", "ReadVariable", ReadOf(7, Shape{2})), "no shard 7"));

  graph::GraphBuilder b("f", &ClusterOps());
  {
    graph::GraphBuilder::DeviceScope scope(&b, "/job:ps/task:0");
    b.Argument("x", DType::kF32, Shape{2});
  }
  const auto place = Place(MustFinish(&b), 1, PsOfSameNumber);
  CHECK(absl::StrContains(place.status().message(), "'arg/x'"));
}

TEST_CASE("the text and the drawing of a partition show components, segments and frames",
          "[partition]") {
  const Partition p = MustPartition(Linear(), 2);
  const std::string text = PartitionToText(p);
  INFO(text);
  for (const char* part :
       {"function 'linear'", "component worker", "component ps:0", "component ps:1", "segment 0",
        "segment 1", "product = Mul(arg/x", "return loss = loss",
        "send (empty frame) -> ps:0 segment 0", "recv f32[2] <- ps:1 segment 0",
        "recv (acknowledgement) <- ps:0 segment 1", "v0 = ReadVariable()", "ApplyDense(recv/",
        "send v1:0 -> worker", "shard=0", "-> ps:1 segment 1"}) {
    INFO(part);
    CHECK(absl::StrContains(text, part));
  }
  const std::string dot = PartitionToDot(p);
  INFO(dot);
  for (const char* part : {"digraph \"linear\" {", "\"cluster_worker\"", "\"cluster_ps0_0\"",
                           "\"cluster_ps0_1\"", "\"cluster_ps1_0\"", "\"cluster_ps1_1\"",
                           "label=\"ps:1 segment 1\"", "\"ps0_0/v0\" -> \"worker/product\""}) {
    INFO(part);
    CHECK(absl::StrContains(dot, part));
  }
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
  CHECK(std::count(dot.begin(), dot.end(), '"') % 2 == 0);
}

// By name: the names of those that a node waits for without a tensor.
Strings WaitsFor(const graph::Function& f, const std::string& name) {
  Strings names;
  for (const graph::Node& n : f.graph.nodes()) {
    if (n.name != name) continue;
    for (const int control : n.control_inputs) names.push_back(f.graph.node(control).name);
  }
  return names;
}

TEST_CASE("control dependencies stay within a component", "[partition]") {
  graph::GraphBuilder b("controls", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{2});
  const Output first = b.Op("Exp", {x}, {}, "first");
  Output second;
  {
    const graph::GraphBuilder::ControlScope scope(&b, {first});
    second = b.Op("Neg", {x}, {}, "second");
  }
  b.Result("second", second);
  const Partition p = MustPartition(MustFinish(&b), 1);
  CHECK(WaitsFor(p.worker, "second") == Strings{"first"});

  graph::GraphBuilder on_ps("on a parameter server", &ClusterOps());
  const Output y = on_ps.Argument("y", DType::kF32, Shape{2});
  const int assign = on_ps.Target("AssignVariable", {y}, ShardOf(0));
  {
    const graph::GraphBuilder::ControlScope scope(&on_ps, {on_ps.Of(assign)});
    on_ps.Target("AssignAddVariable", {y}, ShardOf(0));
  }
  const Partition q = MustPartition(MustFinish(&on_ps), 1);
  REQUIRE(q.segments[0].size() == 1);
  const graph::Function& segment = q.segments[0][0];
  REQUIRE(segment.graph.size() == 3);
  CHECK(segment.graph.node(2).control_inputs == std::vector<int>{1});
}

TEST_CASE("control dependencies between components are kept by the worker's calls", "[partition]") {
  graph::GraphBuilder b("controls", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{2});
  const Output before = b.Op("Exp", {x}, {}, "before");
  int on_0 = 0, on_1 = 0;
  {
    const graph::GraphBuilder::ControlScope scope(&b, {before});
    on_0 = b.Target("AssignVariable", {x}, ShardOf(0));
  }
  Output read, after;
  {
    const graph::GraphBuilder::ControlScope scope(&b, {b.Of(on_0)});
    on_1 = b.Target("AssignVariable", {x}, ShardOf(1));
    read = b.Op("ReadVariable", {}, ReadOf(0, Shape{2}), "read");
    const graph::GraphBuilder::ControlScope inner(&b, {b.Of(on_1)});
    after = b.Op("Neg", {x}, {}, "after");
  }
  b.Result("read", read);
  b.Result("after", after);
  const Partition p = MustPartition(MustFinish(&b), 2);
  // An update is applied when its segment ends, so a read that waits for it is in the next one.
  REQUIRE(p.segments[0].size() == 2);
  CHECK(Ops(p.segments[0][0]) == Strings{"Arg", "AssignVariable"});
  CHECK(Ops(p.segments[0][1]) == Strings{"ReadVariable"});
  CHECK(WaitsFor(p.worker, "call/ps:0/0") == Strings{"before"});
  CHECK(WaitsFor(p.worker, "call/ps:0/1") == Strings{"call/ps:0/0"});
  CHECK(WaitsFor(p.worker, "call/ps:1/1") == Strings{"call/ps:0/0"});
  CHECK(WaitsFor(p.worker, "after") == Strings{"call/ps:0/0", "call/ps:1/1"});
}

TEST_CASE("nodes that wait for different ones are not one, but constants are", "[partition]") {
  graph::GraphBuilder b("merging", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{2});
  const Output first = b.Op("Exp", {x});
  const Output plain = b.Op("Neg", {x}), one = b.Scalar(1);
  {
    const graph::GraphBuilder::ControlScope scope(&b, {first});
    const Output waits = b.Op("Neg", {x});
    CHECK(waits.node != plain.node);
    CHECK(b.Op("Neg", {x}).node == waits.node);
    CHECK(b.Scalar(1).node == one.node);
  }
  CHECK(b.Op("Neg", {x}).node == plain.node);
  const graph::GraphBuilder::ControlScope scope(&b, {b.Of(99)});
  CHECK_FALSE(b.status().ok());
}

}  // namespace
}  // namespace coxswain::function
