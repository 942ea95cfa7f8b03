#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/graph/builder.h"
#include "tests/testing/interpreter.h"
#include "tests/testing/registry.h"

namespace coxswain::graph {
namespace {

using testing::ClusterOps;
using testing::Interpret;

// All that a message must say.
void CheckMessage(const absl::Status& status, const std::vector<std::string>& parts) {
  INFO(status.ToString());
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(absl::StrContains(status.message(), part));
  }
}

Tensor Vector(const std::vector<float>& values) { return Tensor::FromVector<float>(values); }

int CountOp(const Graph& graph, const std::string& op) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op == op;
  return count;
}

TEST_CASE("an inference error names the function, the node, what was wanted and what was found",
          "[graph]") {
  GraphBuilder b("step", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2, 3});
  Output y = b.Argument("y", DType::kF32, Shape{4, 5});
  CHECK_FALSE(b.Op("MatMul", {x, y}, {}, "product").valid());
  CHECK(b.status().code() == absl::StatusCode::kInvalidArgument);
  CheckMessage(b.status(), {"'step'", "'product'", "MatMul", "3", "4"});

  GraphBuilder dtypes("step", &ClusterOps());
  Output i = dtypes.Argument("i", DType::kI64, Shape{2});
  dtypes.Op("Exp", {i}, {}, "power");
  CheckMessage(dtypes.status(), {"'power'", "Exp", "f32", "i64[2]"});

  GraphBuilder count("step", &ClusterOps());
  Output a = count.Argument("a", DType::kF32, Shape{2});
  count.Op("Add", {a}, {}, "sum");
  CheckMessage(count.status(), {"'sum'", "wanted 2 inputs", "found 1"});

  GraphBuilder unknown("step", &ClusterOps());
  unknown.Op("NoSuchOp", {}, {}, "mystery");
  CHECK(unknown.status().code() == absl::StatusCode::kNotFound);
  CheckMessage(unknown.status(), {"'mystery'", "NoSuchOp"});

  GraphBuilder attr("step", &ClusterOps());
  attr.Op("Reshape", {attr.Argument("a", DType::kF32, Shape{2})}, {{"shape", "two"}}, "flat");
  CheckMessage(attr.status(), {"'flat'", "'shape'"});
}

TEST_CASE("the first error of a builder sticks and Finish returns it", "[graph]") {
  GraphBuilder b("step", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2});
  Output bad = b.Op("NoSuchOp", {x}, {}, "first");
  const int size = b.graph().size();
  CHECK_FALSE(b.Op("Neg", {x}).valid());  // fine by itself, but too late
  CHECK_FALSE(b.Op("Neg", {bad}, {}, "second").valid());
  const std::vector<Output> several = b.OpN("TopK", {x}, {{"k", 1}}, 2);
  CHECK(several.size() == 2);
  CHECK_FALSE(several[0].valid());
  CHECK_FALSE(b.Gradients({bad}, {x})[0].valid());
  b.Target("ApplyDense", {bad}, testing::ShardOf(0));
  b.Result("r", bad);
  CHECK(b.graph().size() == size);
  CHECK(b.type(bad) == TensorType{});
  const auto finished = b.Finish();
  REQUIRE_FALSE(finished.ok());
  CheckMessage(finished.status(), {"'first'"});
}

TEST_CASE("misuse of a builder is an error, not a crash", "[graph]") {
  const auto error = [](auto build) {
    GraphBuilder b("f", &ClusterOps());
    Output x = b.Argument("x", DType::kF32, Shape{3});
    build(b, x);
    return std::string(b.status().message());
  };
  using B = GraphBuilder;
  CHECK(absl::StrContains(error([](B& b, Output) { b.Argument("x", DType::kF32, Shape{}); }),
                          "declared twice"));
  CHECK(absl::StrContains(error([](B& b, Output) { b.Op("Neg", {Output{}}); }), "does not exist"));
  CHECK(absl::StrContains(error([](B& b, Output) { b.Op("Neg", {Output{77, 0}}); }), "77"));
  CHECK(absl::StrContains(error([](B& b, Output x) {
                            b.Op("Neg", {Output{x.node, 5}});
                          }),
                          "does not exist"));
  CHECK(absl::StrContains(error([](B& b, Output) { b.Result("r", Output{}); }), "'r'"));
  CHECK(absl::StrContains(error([](B& b, Output x) {
                            b.OpN("TopK", {x}, {{"k", 2}}, 3);
                          }),
                          "wanted 3 outputs, found 2"));
  CHECK(absl::StrContains(error([](B& b, Output) { B::DeviceScope scope(&b, "/job:/oops"); }),
                          "oops"));
}

TEST_CASE("an output of another builder is an error wherever it is given", "[graph]") {
  GraphBuilder other("other", &ClusterOps());
  const Output same_place = other.Argument("x", DType::kF32, Shape{3});
  const Output foreign = other.Op("Neg", {other.Op("Exp", {same_place})});
  const auto check = [](const std::string& use, auto build) {
    GraphBuilder b("f", &ClusterOps());
    const Output x = b.Argument("x", DType::kF32, Shape{3});
    build(b, x);
    CheckMessage(b.Finish().status(), {"function 'f': " + use, "is an output of another function"});
  };
  using B = GraphBuilder;
  check("input 1 of Add", [&](B& b, Output x) { b.Op("Add", {x, same_place}); });
  check("input 0 of TopK", [&](B& b, Output) { b.OpN("TopK", {foreign}, {{"k", 2}}, 2); });
  check("result 'r'", [&](B& b, Output) { b.Result("r", same_place); });
  check("a target", [&](B& b, Output) { b.AddTarget(same_place); });
  check("an output given to Gradients", [&](B& b, Output x) { b.Gradients({foreign}, {x}); });
  check("an output given to Gradients",
        [&](B& b, Output x) { b.Gradients({b.Op("Exp", {x})}, {same_place}); });
  check("a control dependency",
        [&](B& b, Output) { const B::ControlScope scope(&b, {same_place}); });
  GraphBuilder b("f", &ClusterOps());
  CHECK(b.type(same_place).dtype == DType::kInvalid);
  CHECK(b.type(foreign).dtype == DType::kInvalid);
  CHECK(b.status().ok());
}

TEST_CASE("finished functions hold no builder's number, and a builder's next function is another",
          "[graph]") {
  GraphBuilder b("f", &ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{3});
  const Output y = b.Op("Exp", {b.Op("Neg", {x})});
  const std::vector<Output> gradients = b.Gradients({y}, {x});
  CHECK(y.builder != 0);
  CHECK(gradients[0].builder == y.builder);
  b.Result("y", y);
  b.Result("gradient", gradients[0]);
  const Function function = *b.Finish();
  for (const Node& node : function.graph.nodes()) {
    for (const Output& input : node.inputs) CHECK(input.builder == 0);
  }
  for (const auto& result : function.results) CHECK(result.output.builder == 0);
  b.Argument("x", DType::kF32, Shape{3});
  b.Result("x", x);
  CheckMessage(b.Finish().status(), {"is an output of another function"});
}

TEST_CASE("equal stateless nodes are one node, stateful ones never", "[graph]") {
  GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2, 3});
  Output y = b.Argument("y", DType::kF32, Shape{2, 3});
  Output sum = b.Op("Add", {x, y});
  CHECK(b.Op("Add", {x, y}) == sum);
  CHECK(b.Op("Add", {x, y}, {}, "another name") == sum);
  CHECK(b.Op("Add", {y, x}) != sum);
  CHECK(b.Op("Sub", {x, y}) != sum);
  Output rows = b.Op("ReduceSum", {x}, {{"axes", std::vector<int64_t>{0}}});
  CHECK(b.Op("ReduceSum", {x}, {{"axes", std::vector<int64_t>{0}}}) == rows);
  CHECK(b.Op("ReduceSum", {x}, {{"axes", std::vector<int64_t>{1}}}) != rows);

  // Constants by their bytes: 0 is not -0.
  Output one = b.Constant(Vector({0.0f, 1.0f}));
  CHECK(b.Constant(Vector({0.0f, 1.0f})) == one);
  CHECK(b.Constant(Vector({-0.0f, 1.0f})) != one);
  CHECK(b.Constant(Vector({0.0f, 1.0f}).Reshaped(Shape{2, 1})) != one);
  CHECK(b.Constant(Tensor::FromVector<int32_t>({0, 1})) != one);

  const Attrs normal = {{"shape", Shape{2}}};
  CHECK(b.Op("RandomNormal", {}, normal) != b.Op("RandomNormal", {}, normal));
  CHECK(b.Op("ReadVariable", {}, testing::ReadOf(0, Shape{2})) !=
        b.Op("ReadVariable", {}, testing::ReadOf(0, Shape{2})));

  // A constraint is part of a node.
  Output placed;
  {
    GraphBuilder::DeviceScope scope(&b, "/job:ps/task:0");
    placed = b.Op("Add", {x, y});
    CHECK(b.Op("Add", {x, y}) == placed);
  }
  CHECK(placed != sum);
  CHECK(b.graph().node(placed.node).device.ToString() == "/job:ps/task:0");
  CHECK(b.Op("Add", {x, y}) == sum);  // the scope is over
  CHECK(b.status().ok());
}

TEST_CASE("pruning leaves what a result or a target needs, and every argument", "[graph]") {
  GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2});
  b.Argument("unused", DType::kI64, Shape{});
  Output wanted = b.Op("Neg", {b.Op("Exp", {x}, {}, "exp")}, {}, "wanted");
  Output for_update = b.Op("Square", {x}, {}, "square");
  b.Op("Tanh", {b.Op("Sqrt", {x}, {}, "dead too")}, {}, "dead");
  b.Target("ApplyDense", {for_update}, testing::ShardOf(0));
  b.Result("r", wanted);
  auto f = b.Finish();
  REQUIRE(f.ok());
  std::vector<std::string> names;
  for (const Node& node : f->graph.nodes()) names.push_back(node.name);
  CHECK(names.size() == 6);
  for (const char* name : {"arg/x", "arg/unused", "exp", "wanted", "square"}) {
    INFO(name);
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  REQUIRE(f->arguments.size() == 2);
  CHECK(f->graph.node(f->arguments[1].node).name == "arg/unused");
  REQUIRE(f->results.size() == 1);
  CHECK(f->graph.node(f->results[0].output.node).name == "wanted");
  REQUIRE(f->targets.size() == 1);
  CHECK(f->graph.node(f->targets[0]).op == "ApplyDense");
  // Control inputs are needed as well, and follow the new numbers.
  Node waits;
  waits.op = "Neg";
  waits.name = "waits";
  waits.inputs = {{f->arguments[0].node, 0}};
  waits.control_inputs = {f->results[0].output.node};
  Function more = *f;
  more.targets = {*more.graph.Add(waits)};
  more.results.clear();
  const Function pruned = Prune(more);
  CHECK(pruned.graph.size() == 5);  // without the square and its update
  const Node& last = pruned.graph.nodes().back();
  REQUIRE(last.control_inputs.size() == 1);
  CHECK(pruned.graph.node(last.control_inputs[0]).name == "wanted");
}

std::vector<float> GradientAt(const std::vector<float>& at,
                              const std::function<Output(GraphBuilder&, Output)>& build) {
  GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{static_cast<int64_t>(at.size())});
  Output y = build(b, x);
  b.Result("dx", b.Gradients({y}, {x})[0]);
  auto f = b.Finish();
  INFO(f.status().ToString());
  REQUIRE(f.ok());
  auto results = Interpret(*f, {Vector(at)});
  INFO(results.status().ToString());
  REQUIRE(results.ok());
  const auto values = (*results)[0].values<float>();
  return {values.begin(), values.end()};
}

TEST_CASE("the gradient is the sum over all paths", "[graph]") {
  // y = x^2 + 3 x + x e^x, by four paths.
  const std::vector<float> at = {-1.0f, 0.0f, 2.0f};
  const auto dx = GradientAt(at, [](GraphBuilder& b, Output x) {
    Output three = b.Op("Mul", {b.Scalar(3), x});
    return b.Op("Add",
                {b.Op("Add", {b.Op("Square", {x}), three}), b.Op("Mul", {x, b.Op("Exp", {x})})});
  });
  for (size_t i = 0; i < at.size(); ++i) {
    const double v = at[i];
    CHECK(dx[i] == Approx(2 * v + 3 + std::exp(v) + v * std::exp(v)));
  }
  // The same node twice as an input.
  CHECK(GradientAt({3.0f}, [](GraphBuilder& b, Output x) {
          return b.Op("Mul", {x, x});
        }) == std::vector<float>{6.0f});
  // x itself, and an x that is used after a gradient was taken of another.
  CHECK(GradientAt({3.0f}, [](GraphBuilder&, Output x) { return x; }) == std::vector<float>{1.0f});
}

TEST_CASE("gradients of several results add up, and intermediate values may be asked for",
          "[graph]") {
  GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{});
  Output square = b.Op("Square", {x});
  Output cube = b.Op("Mul", {square, x});
  const std::vector<Output> dx = b.Gradients({cube, square, square}, {x, square});
  for (size_t i = 0; i < dx.size(); ++i) b.Result(i == 0 ? "dx" : "dsquare", dx[i]);
  auto f = b.Finish();
  REQUIRE(f.ok());
  auto results = Interpret(*f, {Tensor::Scalar(3.0f)});
  REQUIRE(results.ok());
  CHECK((*results)[0].data<float>()[0] == Approx(27 + 2 * 6));  // 3 x^2 + 2 (2 x)
  CHECK((*results)[1].data<float>()[0] == Approx(3 + 2));       // x + 2
}

TEST_CASE("an x that no y depends on gets an invalid gradient", "[graph]") {
  GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2});
  Output other = b.Argument("other", DType::kF32, Shape{2});
  Output ids = b.Argument("ids", DType::kI64, Shape{2});
  Output y = b.Op("Gather", {b.Op("Exp", {x}), ids});
  Output stopped = b.Op("StopGradient", {other});
  const std::vector<Output> d = b.Gradients({y, stopped}, {other, x, ids});
  CHECK(b.status().ok());
  CHECK_FALSE(d[0].valid());  // only through StopGradient
  CHECK(d[1].valid());
  CHECK_FALSE(d[2].valid());  // integers
}

TEST_CASE("a path through an op without a gradient is an error that names the node", "[graph]") {
  OpRegistry registry;
  kernels::RegisterAllOps(&registry);
  registry.Register(
      {.name = "Opaque", .min_inputs = 1, .max_inputs = 1, .infer = [](InferenceContext* c) {
         c->AddOutput(c->dtype(0), c->shape(0));
         return absl::OkStatus();
       }});
  GraphBuilder b("f", &registry);
  Output x = b.Argument("x", DType::kF32, Shape{2});
  Output y = b.Argument("y", DType::kF32, Shape{2});
  Output opaque = b.Op("Opaque", {x}, {}, "black box");
  Output z = b.Op("Add", {opaque, b.Op("Exp", {y})});
  // Only the path to x leads through it.
  CHECK(b.Gradients({z}, {y})[0].valid());
  CHECK(b.status().ok());
  CHECK_FALSE(b.Gradients({z}, {x})[0].valid());
  CHECK(b.status().code() == absl::StatusCode::kInvalidArgument);
  CheckMessage(b.status(), {"'black box'", "Opaque"});
}

TEST_CASE("what leads to no x is not differentiated", "[graph]") {
  GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{4, 4});
  Output y = b.Argument("y", DType::kF32, Shape{4, 4});
  Output z = b.Op("Add", {b.Op("MatMul", {x, x}), b.Op("Exp", {y})});
  const int products = CountOp(b.graph(), "MatMul");
  b.Gradients({z}, {y});
  CHECK(CountOp(b.graph(), "MatMul") == products);
}

}  // namespace
}  // namespace coxswain::graph
