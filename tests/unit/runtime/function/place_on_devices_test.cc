#include "runtime/function/place_on_devices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "runtime/function/partition.h"
#include "runtime/graph/builder.h"
#include "tests/testing/registry.h"

namespace coxswain::function {
namespace {

using testing::ClusterOps;
using testing::PsOfSameNumber;
using testing::ReadOf;
using testing::ShardOf;

bool HasAll(const graph::Node&) { return true; }

graph::Function Must(absl::StatusOr<graph::Function> function) {
  INFO(function.status().ToString());
  REQUIRE(function.ok());
  return *std::move(function);
}

std::vector<const graph::Node*> NodesOf(const graph::Function& f, absl::string_view op) {
  std::vector<const graph::Node*> found;
  for (const graph::Node& node : f.graph.nodes()) {
    if (node.op == op) found.push_back(&node);
  }
  return found;
}

std::vector<std::string> InputNames(const graph::Function& f, const graph::Node& node) {
  std::vector<std::string> names;
  for (const Output& in : node.inputs) names.push_back(f.graph.node(in.node).name);
  std::sort(names.begin(), names.end());
  return names;
}

// Rows of two PS by the ids of the batch, a small net over them, gradients back; loss as a result.
graph::Function TwoPsStep() {
  graph::GraphBuilder b("step", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output labels = b.Argument("labels", DType::kF32, Shape{kUnknownDim, 4});
  std::vector<Output> rows;
  for (int ps = 0; ps < 2; ++ps) {
    rows.push_back(
        b.Op("GatherShard", {ids}, ReadOf(ps, Shape{10, 4}), "rows" + std::to_string(ps)));
  }
  const Output sum = b.Op("Mul", {rows[0], rows[1]}, {}, "product");
  const Output loss = b.Op("ReduceSum", {b.Op("Square", {b.Op("Sub", {sum, labels})})}, {}, "loss");
  const std::vector<Output> gradients = b.Gradients({loss}, rows);
  for (int ps = 0; ps < 2; ++ps) {
    b.Target("ApplySparse", {ids, gradients[static_cast<size_t>(ps)]}, ShardOf(ps));
  }
  b.Result("loss", loss);
  const graph::Function whole = Must(b.Finish());
  auto parts = PartitionFunction(whole, 2, PsOfSameNumber);
  INFO(parts.status().ToString());
  REQUIRE(parts.ok());
  return parts->worker;
}

TEST_CASE("a step copies once down and once up for each call of a PS", "[device]") {
  const graph::Function placed = Must(PlaceOnDevices(TwoPsStep(), 1, HasAll));
  const auto down = NodesOf(placed, kCopyToDeviceOp), up = NodesOf(placed, kCopyToHostOp);
  REQUIRE(down.size() == 2);
  REQUIRE(up.size() == 2);
  SECTION("the labels go with the first rows") {
    CHECK(InputNames(placed, *down[0]) == std::vector<std::string>{"arg/labels", "call/ps:0/0"});
    CHECK(InputNames(placed, *down[1]) == std::vector<std::string>{"call/ps:1/0"});
  }
  SECTION("the loss comes with the last gradients, but its frame does not carry it") {
    CHECK(up[0]->inputs.size() + up[1]->inputs.size() == 3);
    CHECK(placed.graph.node(placed.results[0].output.node).op == kCopyToHostOp);
    for (const graph::Node* call : NodesOf(placed, kPsCallOp)) {
      if (GetPsCallTarget(*call).segment == 0) continue;
      CHECK(std::count_if(call->inputs.begin(), call->inputs.end(), [&](const Output& in) {
              return placed.graph.node(in.node).op == kCopyToHostOp;
            }) == 1);
    }
  }
}

TEST_CASE("floats run on the device; ids and calls on the host", "[device]") {
  const graph::Function placed = Must(PlaceOnDevices(TwoPsStep(), 1, HasAll));
  for (const graph::Node& node : placed.graph.nodes()) {
    INFO(node.name << " " << node.op);
    const bool host = node.op == "Arg" || node.op == kPsCallOp || node.op == kCopyToDeviceOp ||
                      node.op == kCopyToHostOp;
    CHECK(IsOnDevice(node) == !host);
  }
}

TEST_CASE("what the first frame waits for stays on the host", "[device]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{4});
  const Output ids = b.Op("Cast", {b.Op("Abs", {x}, {}, "abs")}, {{"dtype", DType::kI64}}, "ids");
  const Output rows = b.Op("GatherShard", {ids}, ReadOf(0, Shape{10, 4}), "rows");
  b.Result("y", b.Op("Square", {rows}, {}, "square"));
  auto parts = PartitionFunction(Must(b.Finish()), 1, PsOfSameNumber);
  REQUIRE(parts.ok());
  const graph::Function placed = Must(PlaceOnDevices(parts->worker, 1, HasAll));
  for (const graph::Node& node : placed.graph.nodes()) {
    INFO(node.name);
    CHECK(IsOnDevice(node) == (node.name == "square"));
  }
}

TEST_CASE("an op without code on the device runs on the host, between two copies", "[device]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{4});
  const Output y =
      b.Op("Tanh", {b.Op("Exp", {b.Op("Neg", {x}, {}, "neg")}, {}, "exp")}, {}, "tanh");
  b.Result("y", y);
  const graph::Function placed = Must(PlaceOnDevices(
      Must(b.Finish()), 1, [](const graph::Node& node) { return node.op != "Exp"; }));
  std::vector<std::string> ops;
  for (const graph::Node& node : placed.graph.nodes()) ops.push_back(node.op);
  CHECK(absl::StrJoin(ops, " ") ==
        "Arg CopyToDevice Neg CopyToHost Exp CopyToDevice Tanh CopyToHost");
}

TEST_CASE("ops that say so stay on the host, whatever they are made of", "[device]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{4});
  const Output places = b.Op("Cast", {b.Op("Neg", {x})}, {{"dtype", DType::kI64}}, "places");
  b.Result("unique", b.Op("Unique", {places}, {}, "unique"));
  const graph::Function placed = Must(PlaceOnDevices(Must(b.Finish()), 1, HasAll));
  for (const graph::Node& node : placed.graph.nodes()) {
    if (node.name == "unique") CHECK_FALSE(IsOnDevice(node));
    if (node.name == "places") CHECK(IsOnDevice(node));
  }
}

TEST_CASE("a constant is on each side that uses it, and no copy carries it", "[device]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{4});
  const Output two = b.Scalar(2.0f);
  b.Result("y", b.Op("Mul", {x, two}));
  b.Result("two", two);
  const graph::Function placed = Must(PlaceOnDevices(Must(b.Finish()), 1, HasAll));
  const auto constants = NodesOf(placed, "Const");
  REQUIRE(constants.size() == 2);
  CHECK(IsOnDevice(*constants[0]) != IsOnDevice(*constants[1]));
  REQUIRE(NodesOf(placed, kCopyToDeviceOp).size() == 1);
  CHECK(NodesOf(placed, kCopyToDeviceOp)[0]->inputs.size() == 1);
}

graph::Function Pinned(const std::string& device, const std::string& op = "Neg") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", op == "Unique" ? DType::kI64 : DType::kF32, Shape{4});
  const graph::GraphBuilder::DeviceScope scope(&b, device);
  b.Result("y", b.Op(op, {x}, {}, "pinned"));
  return Must(b.Finish());
}

TEST_CASE("a pinned node runs where it is pinned, or the error says why it cannot", "[device]") {
  const auto on_device = [](const std::string& device) {
    const graph::Function placed = Must(PlaceOnDevices(Pinned(device), 1, HasAll));
    return IsOnDevice(*NodesOf(placed, "Neg")[0]);
  };
  CHECK_FALSE(on_device("/device:CPU:0"));
  CHECK(on_device("/device:GPU:0"));
  const auto error = [](const graph::Function& f, bool has_code) {
    const auto placed = PlaceOnDevices(f, 1, [&](const graph::Node&) { return has_code; });
    CHECK(placed.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(placed.status().message(), "function 'f': node 'pinned'"));
    return std::string(placed.status().message());
  };
  CHECK(absl::StrContains(error(Pinned("/device:GPU:1"), true), "there is one GPU, GPU:0"));
  CHECK(absl::StrContains(error(Pinned("/device:GPU:2"), true), "there is one GPU, GPU:0"));
  CHECK(absl::StrContains(error(Pinned("/device:GPU:0"), false), "no code for Neg"));
  CHECK(absl::StrContains(error(Pinned("/device:GPU:0", "Unique"), true), "runs on the host only"));
}

// Two layers over rows of a PS, each pinned to a GPU of its own, with their gradients.
graph::Function TwoLayers() {
  graph::GraphBuilder b("layers", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Op("GatherShard", {ids}, ReadOf(0, Shape{10, 4}), "rows");
  Output lower, upper;
  {
    const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:0");
    lower = b.Op("Tanh", {rows}, {}, "lower");
  }
  {
    const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:1");
    upper = b.Op("Sigmoid", {lower}, {}, "upper");
  }
  const Output loss = b.Op("ReduceSum", {b.Op("Square", {upper}, {}, "square")}, {}, "loss");
  b.Target("ApplySparse", {ids, b.Gradients({loss}, {rows})[0]}, ShardOf(0));
  b.Result("loss", loss);
  auto parts = PartitionFunction(Must(b.Finish()), 1, PsOfSameNumber);
  REQUIRE(parts.ok());
  return parts->worker;
}

TEST_CASE("layers that are pinned to two GPUs, and all that follows of each, run there",
          "[device]") {
  const graph::Function placed = Must(PlaceOnDevices(TwoLayers(), 2, HasAll));
  const auto device_of = [&](absl::string_view op) {
    REQUIRE(NodesOf(placed, op).size() == 1);
    REQUIRE(IsOnDevice(*NodesOf(placed, op)[0]));
    return DeviceOf(*NodesOf(placed, op)[0]);
  };
  CHECK(device_of("Tanh") == 0);
  CHECK(device_of("Sigmoid") == 1);
  CHECK(device_of("Square") == 1);
  CHECK(device_of("ReduceSum") == 1);
  CHECK(device_of("SigmoidGrad") == 1);
  CHECK(device_of("TanhGrad") == 0);
  SECTION("what crosses goes from one to the other, not by the host") {
    const auto across = NodesOf(placed, kCopyBetweenDevicesOp);
    REQUIRE(across.size() == 2);
    CHECK(InputNames(placed, *across[0]) == std::vector<std::string>{"lower"});
    CHECK(DeviceOf(*across[0]) == 1);
    CHECK(placed.graph.node(across[1]->inputs[0].node).op == "SigmoidGrad");
    CHECK(DeviceOf(*across[1]) == 0);
  }
  SECTION("rows go down to one, gradients come up from it, and the loss from the other") {
    REQUIRE(NodesOf(placed, kCopyToDeviceOp).size() == 1);
    CHECK(DeviceOf(*NodesOf(placed, kCopyToDeviceOp)[0]) == 0);
    const auto up = NodesOf(placed, kCopyToHostOp);
    REQUIRE(up.size() == 2);
    CHECK(DeviceOf(*up[0]) + DeviceOf(*up[1]) == 1);
    CHECK(DeviceOf(placed.graph.node(placed.results[0].output.node)) == 1);
  }
  SECTION("a third GPU is an error that says what there is") {
    const auto none = PlaceOnDevices(Pinned("/device:GPU:2"), 2, HasAll);
    CHECK(none.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(none.status().message(), "there are GPU:0 to GPU:1"));
  }
}

TEST_CASE("a value of the host that two GPUs use goes down to each; a constant is on each",
          "[device]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{4});
  const Output two = b.Scalar(2.0f);
  for (const char* device : {"/device:GPU:0", "/device:GPU:1"}) {
    const graph::GraphBuilder::DeviceScope scope(&b, device);
    b.Result(device, b.Op("Mul", {x, two}));
  }
  const graph::Function placed = Must(PlaceOnDevices(Must(b.Finish()), 2, HasAll));
  CHECK(NodesOf(placed, kCopyToDeviceOp).size() == 2);
  CHECK(NodesOf(placed, kCopyToHostOp).size() == 2);
  REQUIRE(NodesOf(placed, "Const").size() == 2);
  CHECK(NodesOf(placed, "Const")[0]->name != NodesOf(placed, "Const")[1]->name);
  CHECK(NodesOf(placed, kCopyBetweenDevicesOp).empty());
}

TEST_CASE("a pin that holds where it can leaves out what only runs on the host, and servers' ops",
          "[device]") {
  for (const bool if_possible : {false, true}) {
    graph::GraphBuilder b("f", &ClusterOps());
    const Output ids = b.Argument("ids", DType::kI64, Shape{4});
    const graph::GraphBuilder::DeviceScope scope(&b, "/device:GPU:0", if_possible);
    const Output one = b.Constant(Tensor::FromVector<int64_t>({1, 1, 1, 1}));
    const Output next = b.Op("Add", {ids, one}, {}, "next");
    CHECK(b.Op("Add", {ids, one}).node == next.node);
    const Output unique = b.Op("Unique", {next}, {}, "unique");
    const Output rows = b.Op("GatherShard", {unique}, ReadOf(0, Shape{10, 4}), "rows");
    b.Result("y", b.Op("Neg", {rows}, {}, "neg"));
    b.Result("late", b.Argument("late", DType::kF32, Shape{1}));
    const graph::Function f = Must(b.Finish());
    CHECK(NodesOf(f, "Unique")[0]->device.has_device == !if_possible);
    CHECK(NodesOf(f, "Add")[0]->device.has_device == !if_possible);
    CHECK_FALSE(NodesOf(f, "Const")[0]->device.has_device);
    for (const graph::Node* arg : NodesOf(f, "Arg")) CHECK_FALSE(arg->device.has_device);
    CHECK_FALSE(NodesOf(f, "GatherShard")[0]->device.has_device);
    CHECK(NodesOf(f, "Neg")[0]->device.has_device);
  }
}

TEST_CASE("gradients run where their forward nodes are pinned", "[device]") {
  graph::GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{4});
  Output y;
  {
    const graph::GraphBuilder::DeviceScope scope(&b, "/device:CPU:0");
    y = b.Op("Tanh", {x}, {}, "pinned");
  }
  const Output loss = b.Op("ReduceSum", {b.Op("Square", {y})});
  b.Result("d", b.Gradients({loss}, {x})[0]);
  const graph::Function placed = Must(PlaceOnDevices(Must(b.Finish()), 1, HasAll));
  REQUIRE(NodesOf(placed, "TanhGrad").size() == 1);
  CHECK_FALSE(IsOnDevice(*NodesOf(placed, "TanhGrad")[0]));
  CHECK(IsOnDevice(*NodesOf(placed, "Square")[0]));
}

TEST_CASE("copies of someone else's making are refused", "[device]") {
  const graph::Function placed = Must(PlaceOnDevices(Pinned("/device:GPU:0"), 1, HasAll));
  const auto again = PlaceOnDevices(placed, 1, HasAll);
  CHECK(again.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(again.status().message(), "only placement adds"));
}

}  // namespace
}  // namespace coxswain::function
